"""The one file of storage that imports torch: tensors in and out of the torch-free half."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from torchparity.errors import MissingTorchError
from torchparity.tensors import DTYPES, HostTensor

try:
    import torch
except ImportError as error:
    raise MissingTorchError("handling torch tensors") from error


def from_torch(tensor: torch.Tensor) -> HostTensor:
    """Return a tensor's shown values; a contiguous CPU tensor is not copied, so nobody may change it."""
    name = str(tensor.dtype)
    if name not in DTYPES or tensor.layout != torch.strided or tensor.is_meta:
        raise TypeError(f"the values of a {tensor.layout} {name} tensor on {tensor.device} cannot be stored")
    # Not .data or .numpy() alone: those refuse gradients, conjugate views and bf16.
    shown = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    # as_strided: a contiguous tensor of one or no element may keep a stride that view() refuses.
    array = shown.as_strided((shown.numel(),), (1,)).view(torch.uint8).numpy().view(DTYPES[name])
    return HostTensor(name, array.reshape(tuple(tensor.shape)))


def to_torch(tensor: HostTensor) -> torch.Tensor:
    """Return a torch tensor with a copy of the values."""
    raw = np.array(tensor.raw())  # a copy: mapped files are read-only
    kind: torch.dtype = getattr(torch, tensor.dtype.removeprefix("torch."))
    if raw.size == 0:
        return torch.empty(tensor.shape, dtype=kind)
    return torch.from_numpy(raw).view(kind).reshape(tensor.shape)


def save(tensor: HostTensor, path: Path) -> None:
    """Write one tensor as torch.save does."""
    torch.save(to_torch(tensor), path)
