"""The one file of tensors and storage that imports torch: it converts torch's tensors and ours into each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from torchparity.errors import ConfigError, MissingTorchError
from torchparity.tensors import DTYPES, HostTensor

try:
    import torch
except ImportError as error:
    raise MissingTorchError("handling torch tensors") from error


class _Memory:
    """A tensor's memory as NumPy asks for it.

    Not Tensor.numpy(): that marks the storage as never to be resized, and sharded
    training, which frees parameters by resizing, fails from then on.
    """

    __slots__ = ("__array_interface__", "_tensor")

    def __init__(self, tensor: torch.Tensor, kind: np.dtype[Any]) -> None:
        self._tensor = tensor  # NumPy holds this object, and so the memory
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), True),
            "shape": tuple(tensor.shape),
            "strides": tuple(step * kind.itemsize for step in tensor.stride()),
            "typestr": kind.str if kind.isbuiltin == 1 else f"|V{kind.itemsize}",
        }


def memory(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """Return a read-only array over a CPU tensor's memory, whatever its strides; copies nothing."""
    kind = DTYPES[str(tensor.dtype)]
    if tensor.numel() == 0:
        return np.empty(tuple(tensor.shape), kind)
    array = np.asarray(_Memory(tensor, kind))
    return array if array.dtype == kind else array.view(kind)


def from_torch(tensor: torch.Tensor) -> HostTensor:
    """Return a tensor's shown values; a contiguous CPU tensor is not copied, so nobody may change it."""
    name = str(tensor.dtype)
    if name not in DTYPES or tensor.layout != torch.strided or tensor.is_meta:
        raise TypeError(f"the values of a {tensor.layout} {name} tensor on {tensor.device} cannot be stored")
    shown = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    if shown._is_zerotensor():
        shown = shown.clone()  # zeros of autograd, which have no memory
    return HostTensor(name, memory(shown))


def to_torch(tensor: HostTensor) -> torch.Tensor:
    """Return a torch tensor with a copy of the values; raise `ConfigError` where this torch lacks the dtype."""
    raw = np.array(tensor.raw())  # a copy: mapped files are read-only
    kind: torch.dtype | None = getattr(torch, tensor.dtype.removeprefix("torch."), None)
    if kind is None:
        raise ConfigError(f"torch {torch.__version__} has no dtype {tensor.dtype.removeprefix('torch.')}.")
    # torch.empty of the dtype itself warns where torch's support for it is experimental.
    content = torch.from_numpy(raw) if raw.size else torch.empty(0, dtype=torch.uint8)
    return content.view(kind).reshape(tensor.shape)


def save(tensor: HostTensor, path: Path) -> None:
    """Write one tensor as torch.save does."""
    torch.save(to_torch(tensor), path)
