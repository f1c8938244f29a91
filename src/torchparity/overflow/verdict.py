"""One overflow, judged by the same call in float64.

It is normal where the true result leaves the range of the dtype, or is no number at all: then no kernel
could do better. It is abnormal where the true result fits: then the kernel, or what it computes on the way, overflows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import torch

_ROUNDINGS = 8  # so many roundings of the dtype below its largest number a result may overflow by rounding alone

_CLAMPED = 0.05  # relative distance from the truth


class Verdict(Enum):
    """The kinds of an overflow."""

    NORMAL = "normal"
    ABNORMAL = "abnormal"
    NONE = "none"  # it does not overflow here


@dataclass(frozen=True)
class Finding:
    """The overflow of one tensor: how many elements of how many, where the first is, and how large the truth is."""

    place: str  # "output.0"
    dtype: str
    verdict: Verdict
    count: int
    total: int
    first: tuple[int, ...] | None
    largest: float  # of the true result's finite numbers; nan where it has none
    is_true: bool  # an element that overflows is not finite in float64 either
    limit: float  # the largest number of the dtype
    is_saturated: bool  # the device gave a finite number, and its flag told of the overflow


def judge(place: str, seen: torch.Tensor, truth: torch.Tensor, *, is_flagged: bool) -> Finding | None:
    """Return what became of one tensor; None where it has no floating-point numbers or nobody can compare them.

    `is_flagged` says that the device told of an overflow by its flag, where infinities are not to be expected.
    """
    if not (seen.is_floating_point() or seen.is_complex()) or seen.shape != truth.shape:
        return None
    numbers, true_numbers = _parts(seen), _parts(truth).double()
    limit = torch.finfo(numbers.dtype).max
    leaves_range = ~(true_numbers.abs() <= limit * (1 - _ROUNDINGS * torch.finfo(numbers.dtype).eps))
    bad = ~torch.isfinite(numbers.double())
    is_saturated = is_flagged and not bool(bad.any())
    if is_saturated:
        bad = leaves_range | (leaves_range.any().logical_not() & _is_off(numbers.double(), true_numbers))
    fits = bad & ~leaves_range
    verdict = Verdict.NORMAL if bool(bad.any()) else Verdict.NONE
    if bool(fits.any()):
        verdict, bad = Verdict.ABNORMAL, fits
    finite = true_numbers.abs()[torch.isfinite(true_numbers)]
    largest = float(finite.max()) if finite.numel() else float("nan")
    return Finding(
        place=place,
        dtype=str(seen.dtype).removeprefix("torch."),
        verdict=verdict,
        count=int(bad.sum()),
        total=bad.numel(),
        first=_first(bad, seen),
        largest=largest,
        is_true=not bool(torch.isfinite(true_numbers[bad]).all()),
        limit=float(limit),
        is_saturated=is_saturated,
    )


def judge_all(role: str, seen: Mapping[str, object], truth: Mapping[str, object], *, is_flagged: bool) -> list[Finding]:
    """Return what became of every tensor of one side of a call."""
    findings = []
    for path, value in seen.items():
        true_value = truth.get(path)
        if isinstance(value, torch.Tensor) and isinstance(true_value, torch.Tensor):
            finding = judge(f"{role}.{path}", value, true_value, is_flagged=is_flagged)
            if finding is not None:
                findings.append(finding)
    return findings


def joined(findings: Sequence[Finding], *, is_flagged: bool) -> Verdict:
    """Return the verdict about a call: abnormal where one tensor is, or where a flag went up for no reason."""
    verdicts = {finding.verdict for finding in findings}
    if Verdict.ABNORMAL in verdicts:
        return Verdict.ABNORMAL
    if Verdict.NORMAL in verdicts:
        return Verdict.NORMAL
    return Verdict.ABNORMAL if is_flagged else Verdict.NONE


def _is_off(numbers: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Return where numbers are so far from the truth that no rounding explains it: there a kernel has clamped."""
    return (numbers - truth).abs() > _CLAMPED * truth.abs()


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _first(bad: torch.Tensor, seen: torch.Tensor) -> tuple[int, ...] | None:
    places = torch.nonzero(bad)
    if not places.numel():
        return None
    return tuple(int(index) for index in places[0].tolist()[: seen.dim()])
