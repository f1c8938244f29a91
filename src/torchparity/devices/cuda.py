"""CUDA devices: measured by Triton kernels, copied to pinned memory while the training goes on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import torch

from torchparity.devices import HostBuffers, Setting, Wait
from torchparity.kernels.arenas import Arena, cuda_arena, portable_arena
from torchparity.kernels.cuda_waiting import wait_for
from torchparity.tensors import HostTensor
from torchparity.tensors.torch_tensors import memory

_FIRST_WITH_TF32 = (8, 0)


class CudaDevice:
    """See the contract in `devices/__init__.py`."""

    is_host = False
    shares_unresizable = True

    def fast_arena(self, device: torch.device, *, exact: bool, checksums: bool) -> Arena | None:
        return cuda_arena(device, exact=exact, checksums=checksums)

    def portable_arena(self, device: torch.device) -> Arena | None:
        return portable_arena(partial(self.synchronize, device))

    def copy_to_host(self, tensor: torch.Tensor, buffers: HostBuffers) -> tuple[HostTensor, Wait | None]:
        source = tensor.detach().resolve_conj().resolve_neg().contiguous()
        pinned = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
        pinned.copy_(source, non_blocking=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record(torch.cuda.current_stream(tensor.device))
        return HostTensor(str(pinned.dtype), memory(pinned)), partial(wait_for, arrived)

    def wait(self, device: torch.device) -> None:
        torch.cuda.current_stream(device).synchronize()

    def synchronize(self, device: torch.device) -> None:
        torch.cuda.synchronize(device)

    def generators(self) -> list[torch.Generator]:
        return list(torch.cuda.default_generators) if _is_initialized() else []

    def is_capturing_graph(self) -> bool:
        return _is_initialized() and bool(torch.cuda.is_current_stream_capturing())

    def clear_overflow(self, device: torch.device) -> None:
        """Do nothing: an overflow shows as inf."""

    def has_overflowed(self, device: torch.device) -> bool | None:
        return None

    def float32_product(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
        is_summed_in_float16 = left.dtype is torch.float16 and torch.backends.cuda.matmul.allow_fp16_accumulation
        if not _has_products_in_float32() or is_summed_in_float16:
            return None
        multiply: Callable[..., torch.Tensor] = torch.mm if left.dim() == 2 else torch.bmm
        return multiply(left, right, out_dtype=torch.float32)

    def make_reproducible(self, *, deterministic: bool) -> None:
        torch.backends.cudnn.enabled = False
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

    def settings(self) -> dict[str, Setting]:
        if not _is_initialized():
            return {}
        cublas, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        return {
            "cuda": torch.cuda.get_device_name,
            "cuda.capability": lambda: ".".join(map(str, torch.cuda.get_device_capability())),
            "cuda.driver": _driver,
            "seed.cuda": lambda: torch.cuda.default_generators[torch.cuda.current_device()].initial_seed(),
            "tf32.matmul": partial(_has_tf32, "matmul"),
            "tf32.conv": partial(_has_tf32, "conv"),
            "tf32.rnn": partial(_has_tf32, "rnn"),
            "cublas.bf16_reduction": lambda: bool(cublas.allow_bf16_reduced_precision_reduction),
            "cublas.fp16_reduction": lambda: bool(cublas.allow_fp16_reduced_precision_reduction),
            "cublas.fp16_accumulation": lambda: bool(cublas.allow_fp16_accumulation),
            "cudnn": lambda: bool(cudnn.enabled),
            "cudnn.version": cudnn.version,
            "cudnn.benchmark": lambda: bool(cudnn.benchmark),
            "cudnn.deterministic": lambda: bool(cudnn.deterministic),
        }


def _is_initialized() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


@cache
def _has_products_in_float32() -> bool:
    """Tell whether torch's products take the dtype of their result: since 2.8, and not with ROCm."""
    return torch.version.hip is None and hasattr(torch.ops.aten.mm, "dtype")


def _has_tf32(operation: str) -> bool:
    """Tell whether float32 is computed with TF32: it must be allowed, and the device must have it.

    From torch 2.9 on the flags of old raise where a program has used the new ones, and use up a warning that is
    shown once.
    """
    if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0":
        return False
    if torch.version.hip is None and torch.cuda.get_device_capability() < _FIRST_WITH_TF32:
        return False
    getter = getattr(torch._C, "_get_fp32_precision_getter", None)
    if getter is not None:
        return bool(getter("cuda", operation) == "tf32")
    return bool(torch._C._get_cublas_allow_tf32() if operation == "matmul" else torch._C._get_cudnn_allow_tf32())


def _driver() -> str | None:
    """Return the version of the kernel's driver, which cudaDriverGetVersion does not tell."""
    found = re.search(r"\d+\.\d+(?:\.\d+)?", Path("/proc/driver/nvidia/version").read_text(encoding="utf-8"))
    return found[0] if found else None


PLUGIN = CudaDevice()
