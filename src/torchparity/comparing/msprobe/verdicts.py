"""Decisions about one row, as the seeds make them; each says only what the row's own numbers say."""

from __future__ import annotations

import math
from typing import Any

from torchparity.comparing.measuring.metrics import (
    ABSENT,
    UNMATCHED,
    checksums,
    is_nan,
    is_nonfinite_on_one_side,
    is_number,
)
from torchparity.comparing.pairing.rows import Row, Side
from torchparity.naming import RECOMPUTE_MARK
from torchparity.records import TensorLeaf

_COSINE, _LOW_COSINE = 0.99, 0.9
_SMALL_ERROR, _LARGE_ERROR = 0.001, 1.0
_RELATIVE_OF_ONE = 0.01  # of a tensor with one element, which has no cosine
_WARNING = 0.5


def accuracy(row: Row) -> str:
    """Return whether real data agree: Yes, No, None where nothing can be said, Unmatched for other shapes."""
    cosine, _, max_abs, max_relative, *_ = row.metrics
    if cosine == UNMATCHED:
        return "Unmatched"
    if ABSENT in (cosine, max_abs):
        return "No"
    if not is_number(max_abs):
        return "None"
    if max_abs > _LARGE_ERROR or math.isnan(max_abs):
        return "No"
    if not is_number(cosine):
        return "No" if max_abs > _SMALL_ERROR and max_relative > _RELATIVE_OF_ONE else "Yes"
    if math.isnan(cosine):  # one side is all zero
        return "No" if max_abs > 0 else "Yes"
    return "No" if cosine < _LOW_COSINE or (cosine < _COSINE and max_abs > _SMALL_ERROR) else "Yes"


def statistics_result(row: Row) -> str:
    """Return Warning where a printed relative error is above a half, or a statistic is not finite on one side alone."""
    if not row.is_matched:
        return ABSENT
    first, second, third, fourth = row.relative
    try:  # a million rows: loops over four numbers took longer than all else
        is_above = first > _WARNING or second > _WARNING or third > _WARNING or fourth > _WARNING
    except TypeError:  # a word stands among them
        is_above = any(map(_is_above, row.relative))
    if is_above or (any(map(is_nan, row.relative)) and is_nonfinite_on_one_side(row)):
        row.say("Need double check api accuracy.")
        return "Warning"
    return ""


def checksum_result(row: Row) -> str:
    if not row.is_matched:
        return ABSENT
    left, right = checksums(row)
    if left == right == ABSENT and row.candidate is not None and row.candidate.is_tensor:
        return ABSENT  # neither tool could make one, of a sparse tensor for instance
    return "Pass" if left == right else "Different"


def requires_grad_agrees(row: Row) -> bool:
    return _requires_grad(row.candidate) == _requires_grad(row.baseline)


def differs(row: Row) -> bool:
    """Tell whether the two sides of a row disagree, or one of them has a tensor that nobody could compare."""
    if row.verdict in ("No", "Unmatched", "Warning", "Different") or row.is_lost:
        return True
    side = row.candidate or row.baseline
    return not row.is_matched and side is not None and side.is_tensor and not row.record.endswith(RECOMPUTE_MARK)


def _requires_grad(side: Side | None) -> bool | None:
    leaf = side.leaf if side is not None else None
    return leaf.requires_grad if leaf.__class__ is TensorLeaf else None


def _is_above(error: Any) -> bool:
    return error.__class__ is not str and error > _WARNING
