"""Finds the first record that is wrong although what it received was right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal

import msgspec

from torchparity.comparing.judging.agreement import is_apart, is_cancelled
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.pairing.items import ItemPair
from torchparity.naming import OPTIMIZER, RECOMPUTE_MARK, family_of, is_module_name
from torchparity.records import TensorLeaf

Kind = Literal["operator", "argument", "weights", "data", "unpaired", "gap"]
_NONE_ALONE: Mapping[str, str] = {}
_NO_PARENTS: Mapping[str, str | None] = {}
_NOT_THERE = "N/A"  # in place of a name or a value that one run does not have


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
    comparisons: Sequence[ItemComparison],
    left_out: Mapping[str, str] = _NONE_ALONE,
    parents: Mapping[str, str | None] = _NO_PARENTS,
) -> Divergence | None:
    """Return where the runs part, or None where every item agrees.

    `left_out` names, for a record of the candidate, the first record before it that only the baseline has,
    `parents` where it was called from.
    """
    pairs = (entry.pair for entry in comparisons)
    computed_before = {_content(pair) for pair in pairs if pair.candidate is None and pair.role == "output"}
    excused: set[object] = set()  # tensors that were computed from noise
    flowing_in: dict[str, list[ItemComparison]] = {}  # gradients that reach a module, by the module's name
    unpaired: str | None = None
    for group in _in_order(comparisons):
        record = group[0].record
        if not any(entry.is_matched for entry in group):
            unpaired = unpaired or (None if record.endswith(RECOMPUTE_MARK) else record)
            continue
        inputs = [entry for entry in group if entry.is_input]
        if received := _wrong_inputs(inputs, excused):
            first_wrong = max(received, key=_amount)
            kind, alone = _kind_of_input(first_wrong, computed_before), unpaired or left_out.get(record)
            if kind != "weights" and alone is not None:
                kind = "unpaired"
            return _divergence(kind, first_wrong, group, comparisons, alone)
        if is_module_name(record) and group[0].direction == "backward":
            flowing_in.setdefault(family_of(record), []).extend(inputs)
        sources = inputs or flowing_in.get(family_of(record), [])
        if wrong := _wrong_outputs(group, sources, parents.get(record) == OPTIMIZER, excused):
            arguments = [entry for entry in inputs if entry.pair.is_argument and is_apart(entry)]
            worst = max(arguments or wrong, key=_amount)
            return _divergence("argument" if arguments else "operator", worst, group, comparisons, None)
        computed_before |= {_content(entry.pair) for entry in group if entry.pair.role == "output"}
    return None


def first_argument(comparisons: Sequence[ItemComparison]) -> Divergence | None:
    """Return the first argument that differs, whether or not an output shows it."""
    for group in _in_order(comparisons):
        arguments = [entry for entry in group if entry.is_input and entry.pair.is_argument and is_apart(entry)]
        if arguments and any(entry.is_matched for entry in arguments):
            divergence = _divergence("argument", arguments[0], group, comparisons, None)
            return msgspec.structs.replace(divergence, is_shown=False)
    return None


def _wrong_inputs(inputs: Sequence[ItemComparison], excused: set[object]) -> list[ItemComparison]:
    """Return the tensors that a record received and that differ, but for those computed from noise."""
    return [
        entry
        for entry in inputs
        if is_apart(entry) and not entry.pair.is_argument and (not excused or _content(entry.pair) not in excused)
    ]


def _wrong_outputs(
    group: Sequence[ItemComparison], inputs: Sequence[ItemComparison], in_optimizer: bool, excused: set[object]
) -> list[ItemComparison]:
    """Return the outputs that inputs which agree do not explain; what noise explains is excused.

    An optimizer divides by what may be noise itself, so where its inputs are not equal it is never blamed.
    """
    received = [entry for entry in inputs if not entry.pair.is_argument]
    are_equal = bool(received) and not any(entry.deviation for entry in received)
    wrong = [entry for entry in group if not entry.is_input and is_apart(entry, has_equal_inputs=are_equal)]
    wrong = [entry for entry in wrong if not excused or _content(entry.pair) not in excused]
    if wrong and in_optimizer and not are_equal:
        noise = wrong
    else:
        noise = [entry for entry in wrong if is_cancelled(entry, inputs)]
    excused |= {_content(entry.pair) for entry in noise}
    return [entry for entry in wrong if entry not in noise] if noise else wrong


def _in_order(comparisons: Iterable[ItemComparison]) -> list[list[ItemComparison]]:
    """Return the items by record in the order of time; gradients of parameters may stand among forward records."""
    groups = [list(group) for _, group in groupby(comparisons, key=lambda entry: entry.pair.record)]
    late = [group for group in groups if group[0].direction == "parameters_grad"]
    rest = [group for group in groups if group[0].direction != "parameters_grad"]
    last = max((place for place, group in enumerate(rest) if group[0].direction == "backward"), default=len(rest) - 1)
    return rest[: last + 1] + late + rest[last + 1 :]


def _amount(comparison: ItemComparison) -> float:
    return comparison.deviation or 0.0


def _kind_of_input(comparison: ItemComparison, computed_before: set[object]) -> Kind:
    """Tell what an input is that differs while everything computed before it agrees."""
    leaf = comparison.baseline.leaf if comparison.baseline is not None else None
    if comparison.direction != "forward" or _content(comparison.pair) in computed_before:
        return "gap"
    if comparison.role == "parameters":
        return "weights"
    if not isinstance(leaf, TensorLeaf) or not leaf.requires_grad:
        return "data"
    if is_module_name(comparison.record) and computed_before:
        return "gap"  # its weights are its parameters; what else needs a gradient was computed
    return "weights"


def _content(pair: ItemPair) -> object:
    """Return what tells one recorded tensor of the baseline from another."""
    leaf = pair.baseline.leaf if pair.baseline is not None else None
    if not isinstance(leaf, TensorLeaf):
        return None
    return leaf.shape, leaf.checksum, leaf.statistics if leaf.statistics is not None else leaf.stored_in


def _divergence(
    kind: Kind,
    comparison: ItemComparison,
    group: Sequence[ItemComparison],
    comparisons: Sequence[ItemComparison],
    unpaired: str | None,
) -> Divergence:
    return Divergence(
        kind=kind,
        record=comparison.record,
        item=comparison.name,
        baseline_item=comparison.baseline.name if comparison.baseline is not None else _NOT_THERE,
        deviation=_amount(comparison),
        input_deviation=max((_amount(entry) for entry in group if entry.is_input), default=0.0),
        row=next(number for number, entry in enumerate(comparisons) if entry is comparison),
        unpaired=unpaired if kind == "unpaired" else None,
        values=_values(comparison) if kind == "argument" else None,
    )


def _values(comparison: ItemComparison) -> tuple[str, str]:
    sides = (comparison.candidate, comparison.baseline)
    mine, other = (_NOT_THERE if side is None else str(getattr(side.leaf, "value", _NOT_THERE)) for side in sides)
    return mine, other
