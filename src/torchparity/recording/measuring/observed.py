"""What was seen of tensors: kept until the step ends, and turned into leaves then.

None of it is tracked by the garbage collector, which would walk thousands of objects,
again and again, in the middle of a training step.
"""

from __future__ import annotations

from typing import Any

import msgspec
import torch

from torchparity.recording.measuring.geometry import name_of
from torchparity.records import Statistics, TensorLeaf
from torchparity.storage import SharedTensor
from torchparity.storage.encoding import finite_tensor_json, tensor_json


class Measurement(msgspec.Struct, gc=False):
    """What is known of one tensor at one version; filled in when the step ends."""

    statistics: Statistics | None = None
    checksum: str | None = None
    values: SharedTensor | None = None


class ObservedTensor(msgspec.Struct, gc=False):
    """A tensor as calls saw it."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    requires_grad: bool
    measurement: Measurement | None
    layout: str | None = None
    arena: Any = None  # what measures it where it lies, if anything does
    count: int = 0
    made: TensorLeaf | None = None
    json: msgspec.Raw | None = None

    def encoded(self) -> msgspec.Raw:
        """Return the leaf as JSON."""
        if self.json is None:
            known = self.measurement
            if known is not None and known.statistics is not None and self.layout is None:
                needed, checksum = self.requires_grad, known.checksum
                self.json = finite_tensor_json(name_of(self.dtype), self.shape, known.statistics, needed, checksum)
            self.json = self.json or tensor_json(self.leaf())
        return self.json

    def leaf(self) -> TensorLeaf:
        """Return the leaf of every item that showed this tensor; call it when the step is over."""
        if self.made is None:
            known = self.measurement
            self.made = TensorLeaf(
                dtype=name_of(self.dtype),
                shape=self.shape,
                statistics=known.statistics if known else None,
                checksum=known.checksum if known else None,
                requires_grad=self.requires_grad,
                layout=self.layout,
            )
        return self.made


class ObservedList(msgspec.Struct, gc=False):
    """A list of tensors as a call saw it."""

    tensors: list[ObservedTensor]
