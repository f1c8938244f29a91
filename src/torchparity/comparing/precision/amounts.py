"""Tensors as the few numbers that the rules calculate with."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from torchparity.comparing.precision.facts import Received
from torchparity.comparing.precision.figures import ESTIMATE, unit_of


class Amount(msgspec.Struct, frozen=True, gc=False):
    """A tensor of rounded numbers: its size, and how far it is off in absolute terms."""

    place: str  # its name without the role: "0", "weight", "0.3"
    shape: tuple[int, ...]
    count: int
    norm: float
    largest: float
    deviation: float
    error: float  # the norm of the difference
    unit: float  # of the coarser dtype
    finest: float  # the unit of the finer one
    mean: float | None

    @property
    def rms(self) -> float:
        """The root of the mean square."""
        return self.norm / math.sqrt(self.count)

    @property
    def reach(self) -> float:
        """The root of the mean square in the run where it is larger."""
        return math.hypot(self.norm, self.error) / math.sqrt(self.count)

    @property
    def spread(self) -> float:
        """The root of the mean square of the error."""
        return self.error / math.sqrt(self.count)


class Budget(msgspec.Struct, frozen=True, gc=False):
    """The rounding of one output as a rule sees it, in norms.

    `work` is the typical error of the operator's arithmetic in units of its dtype. `operands` is the change of the
    output when every operand is rounded once, in units of the dtype that they are rounded to. `passed` is what the
    inputs' errors make of the output. `terms` is the length of a sum, `scale` the size of what was added up.
    """

    work: float
    operands: float
    passed: float
    terms: float = 1.0
    scale: float = 0.0
    cause: str = ""


def amount_of(tensor: Received, known: float | None = None) -> Amount | None:
    """Return a tensor as an amount, or None where its size is unknown; `known` stands for an unknown deviation."""
    count = math.prod(tensor.shape)
    largest = _finite(tensor.largest)
    norm = _finite(tensor.norm)
    if norm is None:
        if largest is None:
            return None
        norm = largest * math.sqrt(count)
    if largest is None:
        largest = norm
    deviation = tensor.deviation if tensor.deviation is not None else known
    if deviation is None:
        return None
    if tensor.is_estimated:
        deviation *= ESTIMATE
    mine, other = unit_of(tensor.dtype), unit_of(tensor.baseline_dtype)
    return Amount(
        place_of(tensor.name),
        tensor.shape,
        count,
        norm,
        largest,
        deviation,
        deviation * (norm or 1.0),
        max(mine, other),
        min(mine, other),
        _finite(tensor.mean),
    )


def place_of(name: str) -> str:
    """Return the place of an item inside its role: `input.weight` is at `weight`."""
    return name.partition(".")[2]


def total_error(amounts: Iterable[Amount]) -> float:
    """Return the sum of the errors' norms."""
    return sum(amount.error for amount in amounts)


def ratio(above: float, below: float, otherwise: float = 0.0) -> float:
    """Return a quotient, `otherwise` for a divisor of zero."""
    return above / below if below > 0 else otherwise


def _finite(value: float | None) -> float | None:
    return abs(value) if value is not None and math.isfinite(value) else None
