"""CUDA devices: measured by Triton kernels, copied to pinned memory while the training goes on."""

from __future__ import annotations

import os
from functools import partial

import torch

from torchparity.devices import HostBuffers, Wait
from torchparity.kernels.arenas import Arena, cuda_arena, portable_arena
from torchparity.kernels.cuda_waiting import wait_for
from torchparity.tensors import HostTensor
from torchparity.tensors.torch_tensors import memory


class CudaDevice:
    """See the contract in `devices/__init__.py`."""

    is_host = False

    def fast_arena(self, device: torch.device, *, exact: bool, checksums: bool) -> Arena | None:
        return cuda_arena(device, checksums=checksums)  # whose sums are always in float64

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

    def make_reproducible(self, *, deterministic: bool) -> None:
        torch.backends.cudnn.enabled = False
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def _is_initialized() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


PLUGIN = CudaDevice()
