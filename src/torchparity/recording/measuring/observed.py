"""Observed tensors and their measurements: kept until the step ends, and turned into leaves then.

None of it is tracked by the garbage collector, which would walk thousands of objects,
again and again, in the middle of a training step.
"""

from __future__ import annotations

from typing import Any

import msgspec
import torch

from torchparity.recording.measuring.geometry import name_of
from torchparity.recording.measuring.lineage import Source
from torchparity.records import Statistics, TensorLeaf
from torchparity.storage import SharedTensor
from torchparity.storage.encoding import tensor_json


class Measurement(msgspec.Struct, gc=False):
    """The numbers of one tensor at one version; filled in when the step ends."""

    statistics: Statistics | None = None
    checksum: str | None = None
    values: SharedTensor | None = None
    row: int = -1  # its number among the rows of the step, until statistics and checksum are filled in from it


class ObservedTensor(msgspec.Struct, gc=False):
    """A tensor as a call showed it."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    requires_grad: bool
    measurement: Measurement | None
    layout: str | None = None
    arena: Any = None  # the `ArenaSlot` of a tensor measured without a copy
    count: int = 0
    source: Source | None = None  # of its content
    cached_leaf: TensorLeaf | None = None
    cached_json: msgspec.Raw | None = None

    def encoded(self) -> msgspec.Raw:
        """Return the leaf as JSON."""
        if self.cached_json is None:
            self.cached_json = tensor_json(self.leaf())
        return self.cached_json

    def leaf(self) -> TensorLeaf:
        """Return the leaf of every item that showed this tensor; call it when the step is over."""
        if self.cached_leaf is None:
            measured = self.measurement
            self.cached_leaf = TensorLeaf(
                dtype=name_of(self.dtype),
                shape=self.shape,
                statistics=measured.statistics if measured else None,
                checksum=measured.checksum if measured else None,
                requires_grad=self.requires_grad,
                layout=self.layout,
                origin=None if self.source is None else self.source.origin(),
            )
        return self.cached_leaf


class ObservedList(msgspec.Struct, gc=False):
    """A list of tensors as a call showed it."""

    tensors: tuple[ObservedTensor, ...]
