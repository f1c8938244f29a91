"""Significant bits, condition and own error of one result, from its runs with random last bits.

With f the API, y its result in its own precision and F the same in float64:

    spread      how far y moves when the last bits of x do, relative to y
    variation   how far y moves when nothing does
    condition   how far F moves for the same, relative to how far x moved
    error       how far y is from F for the same x

A kernel that is right errs by no more than rounding its inputs and its result would: condition times the size of a
last bit, and a last bit of the result, which is coarse where the result is below the dtype's normal numbers. What errs
far more is wrong, whatever its condition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import torch

Verdict = Literal["sound", "not deterministic", "ill-conditioned", "wrong", "nan", "unknown"]
# Times what conditioning explains: beyond that a kernel is wrong (docs/decisions/0034). Kernels of halves sum in
# float32; algorithms on matrices err by a multiple of the growth that is expected of them.
_FACTOR, _FACTOR_OF_HALVES, _FACTOR_OF_GROWTH = 8.0, 4.0, 2.0
_BITS_OF_HALVES = 11
_SHARE_OF_SPREAD = 0.25  # from which variation without noise, which one run tells, is the reason for the spread


@dataclass(frozen=True)
class Estimate:
    """One result: bits that are significant of those it has, and why they are not more."""

    bits: float
    precision: int  # bits that its dtype has, or its inputs where they have fewer
    condition: float
    error: float | None  # None where float64 cannot be had
    explained: float
    has_nan: bool = False  # as it should
    varies: bool = False  # about as much without noise
    growth: float = 1.0  # that is expected of the error

    @property
    def verdict(self) -> Verdict:
        """The reason for what is lost."""
        factor = _FACTOR_OF_HALVES if self.precision <= _BITS_OF_HALVES else _FACTOR
        factor = max(factor, _FACTOR_OF_GROWTH * self.growth)
        if self.error is not None and self.error > factor * self.explained:
            return "wrong"
        if self.has_nan:
            return "nan"
        if self.bits < self.precision / 2 and self.varies:
            return "not deterministic"
        if self.bits < self.precision / 2:
            return "unknown" if self.error is None else "ill-conditioned"
        return "sound"


@dataclass
class Spread:
    """Collects the runs of one result; every sum is of squares of relative distances."""

    result: torch.Tensor  # of the call itself
    truth: torch.Tensor | None  # in float64
    inputs_unit: float  # of the coarsest input, relative to its size
    repeated: torch.Tensor | None = None  # the result of another run on the same inputs
    growth: float = 1.0
    runs: int = 0
    moved: float = 0.0
    true_moved: float = 0.0
    inputs_moved: float = 0.0
    errors: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.truth is not None:
            self.errors.append(distance(self.result, self.truth))

    def add(self, inputs_moved: float, result: torch.Tensor, truth: torch.Tensor | None) -> None:
        """Take a run whose inputs moved so far, relative to their size."""
        self.runs += 1
        self.inputs_moved += inputs_moved**2
        self.moved += distance(result, self.result) ** 2
        if truth is not None and self.truth is not None:
            self.true_moved += distance(truth, self.truth) ** 2
            self.errors.append(distance(result, truth))

    def estimate(self) -> Estimate:
        """Return what the runs say."""
        unit = torch.finfo(self.result.dtype).eps / 2
        precision = round(-math.log2(max(unit, self.inputs_unit / 2)))
        spread, moved = math.sqrt(self.moved / self.runs), math.sqrt(self.inputs_moved / self.runs)
        follows = spread if self.truth is None else math.sqrt(self.true_moved / self.runs)
        error = math.sqrt(sum(each**2 for each in self.errors) / len(self.errors)) if self.errors else None
        has_nan = bool(_real(self.result).isnan().any())
        variation = 0.0 if self.repeated is None else distance(self.repeated, self.result)
        return Estimate(
            bits=0.0 if has_nan else _bits(spread, precision),
            precision=precision,
            condition=follows / moved if moved else 0.0,
            error=error,
            explained=follows + unit + self._least_rounding(),
            has_nan=has_nan,
            varies=variation > _SHARE_OF_SPREAD * spread > 0,
            growth=self.growth,
        )

    def _least_rounding(self) -> float:
        """Return how far the result is where each element errs by the least number that its dtype has."""
        numbers = torch.finfo(self.result.dtype)
        result = self.result if self.truth is None else self.truth
        size = _norm_of_finite(_real(result).to(torch.float64))
        return numbers.smallest_normal * numbers.eps * math.sqrt(result.numel()) / size if size else 0.0


def _bits(spread: float, precision: int) -> float:
    if math.isnan(spread) or math.isinf(spread):
        return 0.0
    return min(float(precision), max(0.0, -math.log2(spread))) if spread else float(precision)


def distance(left: torch.Tensor, right: torch.Tensor) -> float:
    """Return the relative distance of two tensors, by norms; an element that is nan or infinite in both is equal.

    So is an infinity on the left where the dtype there has nothing larger for what is on the right.
    """
    narrow, wide = _real(left), _real(right).to(left.device)
    a, b = narrow.to(torch.float64), wide.to(torch.float64)
    same = (a == b) | (a.isnan() & b.isnan()) | (a.isinf() & (wide.to(narrow.dtype) == narrow))
    difference = torch.where(same, 0.0, a - b)
    size = _norm_of_finite(b)
    far = torch.linalg.vector_norm(difference).item()
    if math.isnan(far):
        return math.inf
    return far / size if size else (0.0 if far == 0 else math.inf)


def _norm_of_finite(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(torch.where(tensor.isfinite(), tensor, 0.0)))


def _real(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
