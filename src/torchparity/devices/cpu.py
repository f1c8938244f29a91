"""The host: tensors are measured where they are, and nothing has to be waited for."""

from __future__ import annotations

from functools import partial

import torch

from torchparity.devices import HostBuffers, Setting, Wait
from torchparity.kernels.arenas import Arena, host_arena
from torchparity.tensors import HostTensor
from torchparity.tensors.torch_tensors import memory


class CpuDevice:
    """See the contract in `devices/__init__.py`."""

    is_host = True
    shares_unresizable = True

    def fast_arena(self, device: torch.device, *, exact: bool, checksums: bool) -> Arena | None:
        return host_arena(exact=exact, checksums=checksums)

    def portable_arena(self, device: torch.device) -> Arena | None:
        return None  # the compiled kernel of one tensor takes every dtype

    def copy_to_host(self, tensor: torch.Tensor, buffers: HostBuffers) -> tuple[HostTensor, Wait | None]:
        copy = buffers.copy(tensor.detach())
        return HostTensor(str(copy.dtype), memory(copy)), None

    def wait(self, device: torch.device) -> None:
        """Do nothing: the host works in order."""

    def synchronize(self, device: torch.device) -> None:
        """Do nothing: the host works in order."""

    def generators(self) -> list[torch.Generator]:
        return [torch.default_generator]

    def is_capturing_graph(self) -> bool:
        return False

    def clear_overflow(self, device: torch.device) -> None:
        """Do nothing: an overflow shows as inf."""

    def has_overflowed(self, device: torch.device) -> bool | None:
        return None

    def float32_product(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
        return None

    def make_reproducible(self, *, deterministic: bool) -> None:
        """Do nothing: `torch.use_deterministic_algorithms` is all there is."""

    def settings(self) -> dict[str, Setting]:
        return {
            "threads": torch.get_num_threads,
            "threads.interop": torch.get_num_interop_threads,
            "mkldnn": lambda: bool(torch._C._has_mkldnn and torch._C._get_mkldnn_enabled()),
            "mkldnn.matmul": partial(_precision, "matmul"),
            "mkldnn.conv": partial(_precision, "conv"),
        }


def _precision(operation: str) -> str | None:
    """Return in which precision oneDNN computes float32; None where torch has no such setting."""
    getter = getattr(torch._C, "_get_fp32_precision_getter", None)  # from torch 2.9 on
    if getter is not None:
        setting = str(getter("mkldnn", operation))
        return "ieee" if setting == "none" else setting
    is_bf16 = operation == "matmul" and torch._C._get_float32_matmul_precision() == "medium"
    return "bf16" if is_bf16 else "ieee"


PLUGIN = CpuDevice()
