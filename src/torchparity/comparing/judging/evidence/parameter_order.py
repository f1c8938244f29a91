"""Parameters by their names in a model, and the order in which optimizers take them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchparity.comparing.judging.evidence.data_flow import DataFlow
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, has_tensor
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.errors import RecordNameError
from torchparity.naming import OPTIMIZER, parse_record
from torchparity.records import Origin, Record, TensorLeaf
from torchparity.storage import RunPart


def takes_another_order(candidate: RunPart, baseline: RunPart, records: Sequence[JudgedRecord], flow: DataFlow) -> bool:
    """Tell whether some call of an optimizer takes other parameters than its partner, which both runs know."""
    if not flow.is_recorded:
        return False
    others = [
        mine | other
        for record in records
        if candidate.construct.get(record.name) == OPTIMIZER
        for entry in record.items
        if entry.is_input and has_tensor(entry)
        if (mine := _parameters(flow.origins(entry))) != (other := _parameters(flow.baseline_origins(entry)))
        and bool(mine and other)
    ]
    if not others:
        return False
    return set().union(*others) <= known_parameters(candidate) & known_parameters(baseline)


def stepped_parameters(part: RunPart) -> set[str]:
    """Return the parameters that the calls of an optimizer received."""
    optimizers = [name for name, parent in part.construct.items() if parent == OPTIMIZER]
    return _received(part, [part.records[name] for name in optimizers if name in part.records])


def known_parameters(part: RunPart) -> set[str]:
    """Return the parameters that any record received."""
    return _received(part, part.records.values())


def _received(part: RunPart, records: Iterable[Record]) -> set[str]:
    leaves = (
        item.leaf
        for record in records
        for item in record.items()
        if item.role != "output" and isinstance(item.leaf, TensorLeaf)
    )
    return {name for leaf in leaves for name in _parameters(part.origins_of(leaf))}


def _parameters(origins: Iterable[Origin]) -> set[str]:
    return {origin.name for origin in origins if origin.kind == "parameter"}


def parameter_of(record: JudgedRecord, entry: ItemComparison) -> str:
    """Return a parameter's name in the model: `fc.weight`."""
    try:
        path = parse_record(record.name).operator
    except RecordNameError:
        return ""
    item = record.short_name(entry)
    return f"{path}.{item}" if path else item
