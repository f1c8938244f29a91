"""What two items are compared by: the values themselves, their statistics, or their checksums."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

from torchparity.comparing.measuring.values import PairReader, Progress
from torchparity.comparing.pairing.rows import Row, Side
from torchparity.errors import ParityError
from torchparity.records import PairMetrics, TensorLeaf, ValueLeaf
from torchparity.storage import RunPart

UNSUPPORTED, UNMATCHED, ABSENT = "unsupported", "shape unmatched", "N/A"
_SIX = 6
_DIGITS = 12
_ONLY_FLOATS = {float}


class ValueComparer:
    """Fills rows from the values of their tensors."""

    def __init__(self, candidate: RunPart, baseline: RunPart) -> None:
        self._pairs = PairReader(candidate, baseline)

    def read_ahead(self, rows: Iterable[Row], progress: Progress) -> None:
        """Compare the tensors of many rows on all cores, so that `fill` finds them done."""
        self._pairs.read_ahead((pair for row in rows if (pair := _comparable(row)) is not None), progress)

    def fill(self, row: Row) -> None:
        """Set the six metrics of a row, or a word and a message."""
        left, right = row.candidate, row.baseline
        row.metrics = (UNSUPPORTED,) * _SIX
        if left is None or right is None:
            self._say_unmatched(row)
            return
        if not _has_data(left):
            row.say("NPU does not have data file.")
            return
        if not _has_data(right):
            row.say("Bench does not have data file.")
            return
        self._compare(row, left, right)

    def _say_unmatched(self, row: Row) -> None:
        side = row.candidate or row.baseline
        if side is not None and _has_data(side):
            row.say("Bench api/module unmatched.")
            return
        row.say("No bench data matched.", "NPU does not have data file.")

    def _compare(self, row: Row, left: Side, right: Side) -> None:
        mine, other = left.leaf, right.leaf
        if not isinstance(mine, TensorLeaf) or not isinstance(other, TensorLeaf):
            return
        if mine.shape != other.shape:
            row.metrics = (UNMATCHED,) * _SIX
            row.say("Shape of NPU and bench Tensor do not match. Skipped.")
            return
        if not mine.numel:
            row.say("This is empty data, can not compare.")
            return
        try:
            metrics = self._pairs.metrics(mine, other)
        except ParityError as error:
            files = [mine.data_name, other.data_name]
            row.say(f"Dump file: {files} not found or read failed. ({error})")
            row.is_lost = True
            return
        _fill_from(row, metrics, mine)
        if mine.dtype != other.dtype:
            row.say("Dtype of NPU and bench Tensor do not match.")


def _comparable(row: Row) -> tuple[TensorLeaf, TensorLeaf] | None:
    """Return the tensors of a row whose values can be compared."""
    mine, other = (side.leaf if side is not None else None for side in (row.candidate, row.baseline))
    if not isinstance(mine, TensorLeaf) or not isinstance(other, TensorLeaf) or mine.shape != other.shape:
        return None
    return (mine, other) if mine.data_name and other.data_name and mine.numel else None


def _has_data(side: Side) -> bool:
    return isinstance(side.leaf, TensorLeaf) and side.leaf.data_name is not None


def _fill_from(row: Row, metrics: PairMetrics, leaf: TensorLeaf) -> None:
    row.mismatched = metrics.mismatched
    if metrics.mismatched:
        row.metrics = (ABSENT,) * _SIX
        row.say("The Position of inf or nan in NPU and bench Tensor do not match.")
        return
    cosine: Any = math.nan if metrics.cosine is None else round(metrics.cosine, _DIGITS)
    if metrics.cosine is None:
        side = "npu" if metrics.candidate_is_zero else "Bench"
        row.say(f"Cannot compare by Cosine Similarity, All the data is Zero in {side} dump data.")
    rest = (metrics.euclidean, *(round(error, _DIGITS) for error in (metrics.max_abs, metrics.max_relative)))
    shares = tuple(round(share, _DIGITS) for share in (metrics.within_1e3, metrics.within_5e3))
    row.metrics = (cosine, *rest, *shares)
    if not leaf.shape:
        row.metrics = (UNSUPPORTED, UNSUPPORTED, *rest[1:], UNSUPPORTED, UNSUPPORTED)
        row.say(
            "This is type of 0-d tensor, can not calculate 'Cosine', 'EucDist', "
            "'One Thousandth Err Ratio' and 'Five Thousandths Err Ratio'."
        )
    elif leaf.shape == (1,):
        row.metrics = (UNSUPPORTED, *row.metrics[1:])
        row.say("This is a 1-d tensor of length 1.")


def fill_statistics(row: Row) -> None:
    """Set differences and relative errors of max, min, mean and norm."""
    if row.candidate is None or row.baseline is None:
        row.differences = row.relative = (ABSENT,) * 4
        row.say("No bench data matched.")
        return
    left, right = row.candidate.values(), row.baseline.values()
    if set(map(type, left + right)) == _ONLY_FLOATS:  # nearly every row
        (largest, smallest, mean, norm), wholes = left, right
        row.differences = differences = (
            largest - wholes[0], smallest - wholes[1], mean - wholes[2], norm - wholes[3]
        )  # fmt: skip
        if 0.0 not in wholes:
            row.relative = (
                abs(differences[0] / wholes[0]), abs(differences[1] / wholes[1]),
                abs(differences[2] / wholes[2]), abs(differences[3] / wholes[3]),
            )  # fmt: skip
            return
    pairs = list(zip(left, right, strict=True))
    row.differences = tuple(_difference(left, right) for left, right in pairs)
    row.relative = tuple(
        _relative(difference, right) for difference, (_, right) in zip(row.differences, pairs, strict=True)
    )


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_nonfinite_on_one_side(row: Row) -> bool:
    """Tell whether a statistic is nan or infinite and not the same on the other side."""
    if row.candidate is None or row.baseline is None:
        return False
    pairs = zip(row.candidate.values(), row.baseline.values(), strict=True)
    return any(
        left != right and not (is_nan(left) and is_nan(right)) and not (math.isfinite(left) and math.isfinite(right))
        for left, right in pairs
        if is_number(left) and is_number(right)
    )


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value  # only nan is not itself


def _difference(left: Any, right: Any) -> Any:
    return left - right if is_number(left) and is_number(right) else ABSENT


def _relative(difference: Any, right: Any) -> Any:
    """Return |difference / right|; infinite where a number stands against 0."""
    if not is_number(difference):
        return ABSENT
    if right == 0:
        return ABSENT if difference == 0 else math.inf
    return abs(difference / right)


def checksums(row: Row) -> tuple[str, str]:
    """Return the checksums of both sides; a scalar has that of its text."""
    return _checksum(row.candidate), _checksum(row.baseline)


def _checksum(side: Side | None) -> str:
    if side is None or side.leaf is None:
        return ABSENT
    if isinstance(side.leaf, TensorLeaf):
        return side.leaf.checksum or ABSENT
    value = side.leaf.value if isinstance(side.leaf, ValueLeaf) else side.values()[0]
    return f"{crc32(str(value).encode()):08x}"


def worst(values: Sequence[Any]) -> float | None:
    """Return the largest number among cells; nan counts as infinite, words do not count."""
    numbers = [math.inf if math.isnan(value) else value for value in values if is_number(value)]
    return max(numbers, default=None)
