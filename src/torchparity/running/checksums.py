"""Keeps one checksum of the weights and the loss every so many steps."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from torchparity.kernels.checksums import crc_checksum
from torchparity.recording.process import rank_of_process
from torchparity.storage.step_checksums import ChecksumWriter, StepChecksum, checksum_file
from torchparity.tensors.torch_tensors import from_torch


class Checksums:
    """The checksums of the steps of one process."""

    def __init__(self, folder: Path, every: int, command: Sequence[str]) -> None:
        self._folder, self._every, self._command = folder, every, command
        self._model: nn.Module | None = None
        self._writer: ChecksumWriter | None = None
        self._loss: torch.Tensor | None = None
        self.count = 0

    def see_model(self, model: nn.Module) -> None:
        """Note the weights before the first step."""
        self._model = model
        path = checksum_file(self._folder, rank_of_process())
        start = checksum_of(model)
        self._writer = ChecksumWriter(path, every=self._every, command=self._command, start=start)

    def see_loss(self, loss: object) -> None:
        """Note what backward was called on."""
        if isinstance(loss, torch.Tensor):
            with torch._C.DisableTorchFunction():
                self._loss = loss.detach()

    def end_step(self, step: int) -> None:
        """Write the checksum of a step, where it is one of those that are wanted."""
        if step % self._every == 0 and self._model is not None and self._writer is not None:
            self._writer.add(StepChecksum(step, checksum_of(self._model), _text(self._loss)))
            self.count += 1
        self._loss = None


def checksum_of(model: nn.Module) -> str:
    """Return a checksum of the names and the bits of all parameters and buffers."""
    checksum = 0
    with torch._C.DisableTorchFunction(), torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            checksum = zlib.crc32(f"{name} {_content(tensor)}".encode(), checksum)
    return f"{checksum:08x}"


def _content(tensor: torch.Tensor) -> str:
    if is_lazy(tensor):
        return "not made yet"
    bits = "no values" if tensor.is_meta else crc_checksum(from_torch(tensor.to_dense()))
    return f"{tensor.dtype} {list(tensor.shape)} {bits}"


def _text(loss: torch.Tensor | None) -> str:
    if loss is None:
        return "none"
    with torch._C.DisableTorchFunction():
        return repr(loss.item()) if loss.numel() == 1 else "no single number"
