"""Tells from stored values whether indices differ because the values that they point at are close together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, is_whole
from torchparity.comparing.judging.evidence.operators import operator_of
from torchparity.comparing.measuring.deviation import has_other_shape
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.rounding import unit_of
from torchparity.errors import ParityError
from torchparity.records import TensorLeaf, ValueLeaf
from torchparity.storage import RunPart

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    Rows = npt.NDArray[Any]  # two dimensions: what one choice is made from, or gives

_RETURNS_INDICES_ALONE = ("argmax", "argmin", "argsort")
_RETURNS_INDICES_SECOND = ("max", "min", "sort", "topk", "kthvalue", "median")
_HAS_A_COUNT_FIRST = ("topk", "kthvalue")


class NearTies:
    """The choices of one part whose values are stored in both runs."""

    def __init__(self, candidate: RunPart, baseline: RunPart) -> None:
        self._candidate, self._baseline = candidate, baseline
        self._known: dict[str, bool | None] = {}  # by the name of the indices

    def explain(self, record: JudgedRecord, entry: ItemComparison) -> bool | None:
        """Tell whether what a call was given explains that it chose other indices; None where nobody can tell.

        Of two values that are each off by a little either may be the larger where they are as close together as twice
        that, or as one rounding to their dtype.
        """
        if entry.name not in self._known:
            self._known[entry.name] = self._explain(record, entry)
        return self._known[entry.name]

    def _explain(self, record: JudgedRecord, entry: ItemComparison) -> bool | None:
        source = record.received[0] if record.received else None
        if source is None or not _are_indices(record, entry) or not _are_stored(entry) or not _are_stored(source):
            return None
        unit = max(unit_of(leaf.dtype) for leaf in _leaves(source))
        if not unit:
            return None
        axis = _axis(record, source)
        try:
            values = self._rows(source, axis)
            chosen = self._rows(entry, axis if len(_shape(entry)) == len(_shape(source)) else None)
        except ParityError:
            return None
        return _are_close(values, chosen, unit)

    def _rows(self, entry: ItemComparison, axis: int | None) -> tuple[Rows, Rows]:
        mine, other = _leaves(entry)
        return _as_rows(self._candidate.tensor(mine).array, axis), _as_rows(self._baseline.tensor(other).array, axis)


def _are_close(values: tuple[Rows, Rows], chosen: tuple[Rows, Rows], unit: float) -> bool | None:
    """Tell whether the baseline's values at the candidate's indices are about those at its own, row by row."""
    import numpy as np  # takes as long to load as comparing statistics, which does without

    length = values[0].shape[1]
    rows = values[0].shape[0]
    indices = [each.reshape(rows, -1) for each in chosen if rows and not each.size % rows]
    if len(indices) < len(chosen) or not length:
        return None
    if any(((each < 0) | (each >= length)).any() for each in indices):
        return False
    differing = (indices[0] != indices[1]).any(axis=1)
    mine, other = (each[differing].astype(np.float64) for each in values)
    picked, right = (np.take_along_axis(other, each[differing], axis=1) for each in indices)
    with np.errstate(invalid="ignore"):
        off = np.abs(mine - other).max(axis=1, keepdims=True)
        allowed = 2.0 * off + 2.0 * unit * np.maximum(np.abs(picked), np.abs(right))
        return not bool((np.abs(picked - right) > allowed).any())  # nan excuses everything


def _as_rows(array: npt.NDArray[Any], axis: int | None) -> Rows:
    import numpy as np

    if axis is None or not array.ndim:
        return array.reshape(1, -1)
    moved = np.moveaxis(array, axis, -1)
    return moved.reshape(-1, moved.shape[-1])


def _axis(record: JudgedRecord, source: ItemComparison) -> int | None:
    """Return the dimension that a call chooses along; None where it chooses among all elements."""
    operator = operator_of(record.name)
    places = ("input.dim", "input.2" if operator in _HAS_A_COUNT_FIRST else "input.1")
    for entry in record.items:
        leaf = entry.baseline.leaf if entry.is_input and entry.baseline is not None else None
        if isinstance(leaf, ValueLeaf) and leaf.type == "int" and record.short_name(entry) in places:
            return int(leaf.value) if -len(_shape(source)) <= leaf.value < len(_shape(source)) else None
    return None if operator in ("argmax", "argmin") else -1


def _are_indices(record: JudgedRecord, entry: ItemComparison) -> bool:
    operator, is_first = operator_of(record.name), record.returned[0] is entry
    return is_whole(entry) and operator in (_RETURNS_INDICES_ALONE if is_first else _RETURNS_INDICES_SECOND)


def _are_stored(entry: ItemComparison) -> bool:
    sides = (entry.candidate, entry.baseline)
    return all(side is not None and side.has_values for side in sides) and not has_other_shape(entry.pair)


def _leaves(entry: ItemComparison) -> list[TensorLeaf]:
    sides = (entry.candidate, entry.baseline)
    return [side.leaf for side in sides if side is not None and isinstance(side.leaf, TensorLeaf)]


def _shape(entry: ItemComparison) -> tuple[int, ...]:
    return tuple(_leaves(entry)[0].shape)
