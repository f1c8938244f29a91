"""The environment of a recording: what is built, switched on and seeded here that two runs may differ in.

Reading it changes nothing: no random number is drawn, no device is initialised, nothing warns. What cannot be read
is left out. docs/environment.md says what each key means.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import torch
from torch.nn import functional
from torch.utils._device import DeviceContext

from torchparity.calls import attempted, modes_of
from torchparity.devices import Setting, all_devices, devices_of_types

_LIBRARIES = ("numpy", "transformers", "accelerate", "deepspeed", "triton", "flash_attn", "torch_npu")
_VARIABLES = (
    "ASCEND_LAUNCH_BLOCKING",
    "ATB_LLM_LCOC_ENABLE",
    "ATB_MATMUL_SHUFFLE_K_ENABLE",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_LAUNCH_BLOCKING",
    "HCCL_DETERMINISTIC",
    "LCCL_DETERMINISTIC",
    "MKL_CBWR",
    "MKL_NUM_THREADS",
    "NCCL_ALGO",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "PYTHONHASHSEED",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)
_MATMUL_PRECISIONS = {
    ("none", "none"): "highest",
    ("ieee", "ieee"): "highest",
    ("tf32", "tf32"): "high",
    ("tf32", "bf16"): "medium",
}
_LONGEST = 120  # of a value
_PROCESSOR_BYTES = 4096  # of /proc/cpuinfo: it says the same of every core


def read_environment(*, autocast: str | None = None, device_types: Iterable[str] | None = None) -> dict[str, str]:
    """Return the environment by key.

    `autocast` is what calls of the step were seen to run under. `device_types` are those of the recorded tensors; None
    asks all devices that are initialised.
    """
    settings = {**_settings(), "autocast": lambda: autocast or _autocast()}
    for device in all_devices() if device_types is None else devices_of_types(device_types):
        told = attempted(device.settings)
        settings |= {} if isinstance(told, Exception) else told
    return {**_build(), **_read(settings), **_libraries(), **_variables()}


def _read(settings: Mapping[str, Setting]) -> dict[str, str]:
    """Return the settings as text, without those that cannot be read or have no value here."""
    values = {key: attempted(read) for key, read in settings.items()}
    return {
        key: _text(value) for key, value in values.items() if value is not None and not isinstance(value, Exception)
    }


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value).removeprefix("torch.")[:_LONGEST]


@cache
def _build() -> dict[str, str]:
    """Return what cannot change while the process lives."""
    return _read(
        {
            "torch": lambda: torch.__version__,
            "torch.git": lambda: (torch.version.git_version or "")[:12] or None,
            "torch.cuda": lambda: torch.version.cuda,
            "torch.hip": lambda: torch.version.hip,
            "torch.blas": lambda: _matched(r"BLAS_INFO=([\w.-]+)", torch.__config__.show()),
            "python": platform.python_version,
            "platform": lambda: f"{platform.system()} {platform.machine()}",
            "cpu": _processor,
            "cpu.capability": torch.backends.cpu.get_cpu_capability,
        }
    )


def _settings() -> dict[str, Setting]:
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return {
        "deterministic": _deterministic,
        "deterministic.fill": lambda: torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        "default.dtype": torch.get_default_dtype,
        "default.device": _default_device,
        "grad_mode": _grad_mode,
        "seed": torch.default_generator.initial_seed,
        "dropout": lambda: "removed" if hasattr(functional.dropout, "_without_dropout") else None,
        "world.size": lambda: torch.distributed.get_world_size() if distributed else None,
        "world.backend": lambda: torch.distributed.get_backend() if distributed else None,
        "matmul_precision": _matmul_precision,
        "attention.flash": torch.backends.cuda.flash_sdp_enabled,
        "attention.mem_efficient": torch.backends.cuda.mem_efficient_sdp_enabled,
        "attention.math": torch.backends.cuda.math_sdp_enabled,
        "attention.cudnn": torch.backends.cuda.cudnn_sdp_enabled,
    }


def _deterministic() -> str:
    if not torch.are_deterministic_algorithms_enabled():
        return "off"
    return "warn only" if torch.is_deterministic_algorithms_warn_only_enabled() else "on"


def _default_device() -> object:
    # torch.get_default_device makes a tensor to find out, which initialises the device.
    contexts = modes_of(DeviceContext)
    return contexts[-1].device if contexts else "cpu"


def _matmul_precision() -> str | None:
    """Return `torch.get_float32_matmul_precision()`, which from torch 2.9 on may raise or use up a warning."""
    getter = getattr(torch._C, "_get_fp32_precision_getter", None)
    if getter is None:
        return torch.get_float32_matmul_precision()
    return _MATMUL_PRECISIONS.get((getter("cuda", "matmul"), getter("mkldnn", "matmul")))


def _grad_mode() -> str:
    if torch.is_inference_mode_enabled():
        return "inference"
    return "on" if torch.is_grad_enabled() else "off"


def _autocast() -> str:
    return "on" if torch._C._is_any_autocast_enabled() else "off"


def _libraries() -> dict[str, str]:
    """Return the versions of libraries that the program has imported; none is imported for it."""
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in _LIBRARIES}
    return {name: version[:_LONGEST] for name, version in versions.items() if isinstance(version, str)}


def _variables() -> dict[str, str]:
    """Return variables that are set, unless they hold a path, which would tell about the user."""
    values = {name: os.environ.get(name, "") for name in _VARIABLES}
    return {f"env.{name}": value[:_LONGEST] for name, value in values.items() if value and "/" not in value}


def _processor() -> str | None:
    with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
        return _matched(r"model name\s*:\s*(.+)", file.read(_PROCESSOR_BYTES))


def _matched(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found[1].strip() if found else None
