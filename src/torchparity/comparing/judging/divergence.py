"""The first record that is wrong although what it received was right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal

import msgspec

from torchparity.comparing.judging.deviation import deviation, is_apart, is_argument, is_cancelled
from torchparity.comparing.measuring.metrics import ABSENT
from torchparity.comparing.msprobe.columns import Mode
from torchparity.comparing.pairing.rows import Row
from torchparity.naming import OPTIMIZER, RECOMPUTE_MARK, family_of, is_module_name
from torchparity.records import TensorLeaf

Kind = Literal["operator", "argument", "weights", "data", "unpaired", "gap"]
_NONE_ALONE: Mapping[str, str] = {}
_NO_PARENTS: Mapping[str, str | None] = {}


class Divergence(msgspec.Struct, frozen=True):
    """Where two runs part.

    operator: the record's inputs agree and its output does not. argument: so does another
    argument than a tensor. weights, data: what it received was different from the start.
    unpaired: its input differs, and before it are records that only one run has. gap: its
    input differs although every recorded output before it agrees, so something between was
    not recorded.
    """

    kind: Kind
    record: str
    item: str
    baseline_item: str
    deviation: float  # of the item, relative
    input_deviation: float  # the largest of what the record received
    row: int
    unpaired: str | None = None  # the first record before it that only one run has
    values: tuple[str, str] | None = None  # of an argument: the candidate's and the baseline's
    is_shown: bool = True  # of an argument: whether the record's own output differs


def find_divergence(
    rows: Sequence[Row],
    mode: Mode,
    left_out: Mapping[str, str] = _NONE_ALONE,
    parents: Mapping[str, str | None] = _NO_PARENTS,
) -> Divergence | None:
    """Return where the runs part, or None where every row agrees.

    `left_out` names, for a record of the candidate, the first record before it that only the baseline has,
    `parents` where it was called from.
    """
    made_before = {_content(row) for row in rows if row.candidate is None and row.role == "output"}
    excused: set[object] = set()  # what was made of noise
    flowing_in: dict[str, list[Row]] = {}  # what the gradients of a module's parameters are made of
    unpaired: str | None = None
    for group in _in_order(rows):
        record = group[0].record
        if not any(row.is_matched for row in group):
            unpaired = unpaired or (None if record.endswith(RECOMPUTE_MARK) else record)
            continue
        inputs = [row for row in group if row.is_input]
        received = [
            row
            for row in inputs
            if not is_argument(row) and is_apart(row, mode) and (not excused or _content(row) not in excused)
        ]
        if received:
            found = max(received, key=lambda row: deviation(row, mode) or 0)
            kind, alone = _kind_of_input(found, made_before), unpaired or left_out.get(record)
            if kind != "weights" and alone is not None:
                kind = "unpaired"
            return _divergence(kind, found, group, mode, rows, alone)
        if is_module_name(record) and group[0].direction == "backward":
            flowing_in.setdefault(family_of(record), []).extend(inputs)
        sources = inputs or flowing_in.get(family_of(record), [])
        made = _wrong_outputs(group, sources, mode, parents.get(record) == OPTIMIZER, excused)
        if made:
            arguments = [row for row in inputs if is_argument(row) and is_apart(row, mode)]
            found = max(arguments or made, key=lambda row: deviation(row, mode) or 0)
            return _divergence("argument" if arguments else "operator", found, group, mode, rows, None)
        made_before |= {_content(row) for row in group if row.role == "output"}
    return None


def first_argument(rows: Sequence[Row], mode: Mode) -> Divergence | None:
    """Return the first argument that differs, whether or not an output shows it."""
    for group in _in_order(rows):
        apart = [row for row in group if row.is_input and is_argument(row) and is_apart(row, mode)]
        if apart and any(row.is_matched for row in apart):
            found = _divergence("argument", apart[0], group, mode, rows, None)
            return msgspec.structs.replace(found, is_shown=False)
    return None


def _wrong_outputs(
    group: Sequence[Row], inputs: Sequence[Row], mode: Mode, in_optimizer: bool, excused: set[object]
) -> list[Row]:
    """Return the outputs that inputs which agree do not explain; what noise explains is excused.

    An optimizer divides by what may be noise itself, so where its inputs are not equal it is never blamed.
    """
    received = [row for row in inputs if not is_argument(row)]
    are_equal = bool(received) and not any(deviation(row, mode) for row in received)
    made = [row for row in group if not row.is_input and is_apart(row, mode, from_equals=are_equal)]
    made = [row for row in made if not excused or _content(row) not in excused]
    if made and in_optimizer and not are_equal:
        noise = made
    else:
        noise = [row for row in made if is_cancelled(row, inputs, mode)]
    excused |= {_content(row) for row in noise}
    return [row for row in made if row not in noise] if noise else made


def _in_order(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the rows by record in the order of time; gradients of parameters may stand among forward records."""
    groups = [list(group) for _, group in groupby(rows, key=lambda row: row.record)]
    late = [group for group in groups if group[0].direction == "parameters_grad"]
    rest = [group for group in groups if group[0].direction != "parameters_grad"]
    last = max((place for place, group in enumerate(rest) if group[0].direction == "backward"), default=len(rest) - 1)
    return rest[: last + 1] + late + rest[last + 1 :]


def _kind_of_input(row: Row, made_before: set[object]) -> Kind:
    """Tell what an input is that differs while everything made before it agrees."""
    leaf = row.baseline.leaf if row.baseline is not None else None
    if row.direction != "forward" or _content(row) in made_before:
        return "gap"
    if row.role == "parameters":
        return "weights"
    if not isinstance(leaf, TensorLeaf) or not leaf.requires_grad:
        return "data"
    if is_module_name(row.record) and made_before:
        return "gap"  # its weights are its parameters; what else needs a gradient was computed
    return "weights"


def _content(row: Row) -> object:
    """Return what tells one recorded tensor of the baseline from another."""
    leaf = row.baseline.leaf if row.baseline is not None else None
    if not isinstance(leaf, TensorLeaf):
        return None
    return leaf.shape, leaf.checksum, leaf.statistics if leaf.statistics is not None else leaf.stored_in


def _divergence(
    kind: Kind, row: Row, group: Sequence[Row], mode: Mode, rows: Sequence[Row], unpaired: str | None
) -> Divergence:
    received = [deviation(entry, mode) or 0.0 for entry in group if entry.is_input]
    return Divergence(
        kind=kind,
        record=row.record,
        item=row.name,
        baseline_item=row.baseline.name if row.baseline is not None else ABSENT,
        deviation=deviation(row, mode) or 0.0,
        input_deviation=max(received, default=0.0),
        row=next(number for number, entry in enumerate(rows) if entry is row),
        unpaired=unpaired if kind == "unpaired" else None,
        values=_values(row) if kind == "argument" else None,
    )


def _values(row: Row) -> tuple[str, str]:
    sides = (row.candidate, row.baseline)
    mine, other = (ABSENT if side is None else str(getattr(side.leaf, "value", ABSENT)) for side in sides)
    return mine, other
