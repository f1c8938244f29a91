"""Ascend NPUs through torch_npu, which the training has imported if it has such tensors; it is not imported here.

The simulated NPU has the same `torch.npu`, and its tensors are in host memory.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import torch

from torchparity.devices import HostBuffers, Setting, Wait
from torchparity.kernels.arenas import Arena, host_arena, portable_arena
from torchparity.tensors import HostTensor
from torchparity.tensors.torch_tensors import from_torch

# What the simulated NPU may compute with.
_ACCUMULATIONS = {
    "npu.bf16_accumulation": "bf16",
    "npu.fp16_accumulation": "fp16",
    "tf32.matmul": "tf32",
    "tf32.conv": "tf32",
}


class NpuDevice:
    """See the contract in `devices/__init__.py`."""

    @property
    def is_host(self) -> bool:
        return _is_simulated()

    @property
    def shares_unresizable(self) -> bool:
        return not _is_simulated()  # where no storage can be resized

    def fast_arena(self, device: torch.device, *, exact: bool, checksums: bool) -> Arena | None:
        return host_arena(exact=exact, checksums=checksums) if _is_simulated() else None

    def portable_arena(self, device: torch.device) -> Arena | None:
        if _is_simulated():  # measuring must not pass through the simulated kernels
            return None
        return portable_arena(partial(self.synchronize, device))

    def copy_to_host(self, tensor: torch.Tensor, buffers: HostBuffers) -> tuple[HostTensor, Wait | None]:
        return from_torch(tensor), None

    def wait(self, device: torch.device) -> None:
        _torch_npu().current_stream(device).synchronize()

    def synchronize(self, device: torch.device) -> None:
        _torch_npu().synchronize(device)

    def generators(self) -> list[torch.Generator]:
        backend = _torch_npu()
        return list(backend.default_generators) if backend is not None and backend.is_initialized() else []

    def is_capturing_graph(self) -> bool:
        backend = _torch_npu()
        is_capturing = getattr(backend, "is_current_stream_capturing", None)  # early torch_npu has no graphs
        return bool(is_capturing is not None and backend.is_initialized() and is_capturing())

    def clear_overflow(self, device: torch.device) -> None:
        if _has_overflow_flag():
            with _torch_npu().device(device):
                _torch_npu().utils.clear_npu_overflow_flag()

    def has_overflowed(self, device: torch.device) -> bool | None:
        if not _has_overflow_flag():
            return None
        with _torch_npu().device(device):
            return bool(_torch_npu().utils.get_npu_overflow_flag())

    def float32_product(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
        return None

    def make_reproducible(self, *, deterministic: bool) -> None:
        if deterministic:
            os.environ["HCCL_DETERMINISTIC"] = "true"

    def settings(self) -> dict[str, Setting]:
        backend = _torch_npu()
        if backend is None or not backend.is_initialized():
            return {}
        return {
            "npu": backend.get_device_name,
            "npu.cann": lambda: getattr(torch.version, "cann", None),
            "hf32.matmul": lambda: bool(backend.matmul.allow_hf32),
            "hf32.conv": lambda: bool(backend.conv.allow_hf32),
            "seed.npu": lambda: backend.default_generators[backend.current_device()].initial_seed(),
            **({kind: partial(_accumulates_in, kind) for kind in _ACCUMULATIONS} if _is_simulated() else {}),
        }


def _torch_npu() -> Any:
    """Return `torch.npu`, which is there when torch_npu was imported; else None."""
    return vars(torch).get("npu")  # `getattr` would search for a module to import


def _is_simulated() -> bool:
    """Tell whether `torch.npu` is that of torchparity.simulation."""
    return bool(getattr(_torch_npu(), "is_simulated", False))


def _accumulates_in(setting: str) -> bool:
    return bool(_torch_npu().execution.behaviour.accumulate == _ACCUMULATIONS[setting])


def _has_overflow_flag() -> bool:
    """Tell whether this NPU saturates on overflow and sets a flag; newer ones give inf and have none."""
    return not _torch_npu().utils.is_support_inf_nan()


PLUGIN = NpuDevice()
