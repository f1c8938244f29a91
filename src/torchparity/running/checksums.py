"""Keeps one checksum of the weights and the losses every so many steps."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from torchparity.kernels.checksums import crc_checksum
from torchparity.recording.process import rank_of_process
from torchparity.running.made_objects import MadeObjects
from torchparity.storage.step_checksums import ChecksumWriter, StepChecksum, checksum_file
from torchparity.tensors.torch_tensors import from_torch


class Checksums:
    """The checksums of the steps of one process: of what optimizers hold, and of the models around it."""

    def __init__(self, folder: Path, every: int, command: Sequence[str], made: MadeObjects) -> None:
        self._folder, self._every, self._command, self._made = folder, every, command, made
        self._writer: ChecksumWriter | None = None
        self._losses: list[str] = []
        self.count = 0

    def begin_step(self, model: nn.Module | None) -> None:
        """Note the weights before the first step."""
        if self._writer is None:
            path = checksum_file(self._folder, rank_of_process())
            start = checksum_of(self._weights(model))
            self._writer = ChecksumWriter(path, every=self._every, command=self._command, start=start)

    def see_losses(self, step: int, losses: object) -> None:
        """Note what backward was called on: once per step, or for each of the batches that are accumulated."""
        if step % self._every == 0:
            several = losses if isinstance(losses, (list, tuple)) else [losses]
            self._losses += [_text(loss) for loss in several if isinstance(loss, torch.Tensor)]

    def end_step(self, step: int, model: nn.Module | None) -> None:
        """Write the checksum of a step, where it is one of those that are wanted."""
        weights = list(self._weights(model)) if step % self._every == 0 else []
        if weights and self._writer is not None:
            self._writer.add(StepChecksum(step, checksum_of(weights), tuple(self._losses)))
            self.count += 1
        self._losses.clear()

    def _weights(self, model: nn.Module | None) -> Iterator[torch.Tensor]:
        """Yield parameters and buffers of the models, and then what optimizers hold besides."""
        models = self._made.trained_models()
        if model is not None and not any(each is model for outer in models for each in outer.modules()):
            models.append(model)
        seen: set[int] = set()
        for tensors in (*(weights_of(each) for each in models), self._made.optimized()):
            for tensor in tensors:
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield tensor


def weights_of(model: nn.Module) -> list[torch.Tensor]:
    """Return the parameters and buffers of a model."""
    return [*model.parameters(), *model.buffers()]


def checksum_of(tensors: Iterable[torch.Tensor]) -> str:
    """Return a checksum of the bits of tensors in their order; names differ where a model is wrapped or compiled."""
    checksum = 0
    with torch._C.DisableTorchFunction(), torch.no_grad():
        for tensor in tensors:
            checksum = zlib.crc32(_content(tensor).encode(), checksum)
    return f"{checksum:08x}"


def _content(tensor: torch.Tensor) -> str:
    if is_lazy(tensor):
        return "not made yet"
    own = getattr(tensor, "_local_tensor", tensor)  # this rank's part of a tensor that ranks share
    bits = "no values" if own.is_meta else crc_checksum(from_torch(own.to_dense()))
    return f"{own.dtype} {list(own.shape)} {bits}"


def _text(loss: torch.Tensor) -> str:
    with torch._C.DisableTorchFunction():
        return repr(loss.item()) if loss.numel() == 1 else "no single number"
