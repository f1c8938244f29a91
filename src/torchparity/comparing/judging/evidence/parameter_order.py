"""The order in which optimizers take the parameters of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchparity.comparing.judging.evidence.data_flow import DataFlow
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, has_tensor
from torchparity.naming import OPTIMIZER
from torchparity.records import Origin, TensorLeaf
from torchparity.storage import RunPart


def takes_another_order(candidate: RunPart, baseline: RunPart, records: Sequence[JudgedRecord], flow: DataFlow) -> bool:
    """Tell whether both optimizers take the same parameters, and some call another one than its partner."""
    if not flow.is_recorded or _taken(candidate) != _taken(baseline):
        return False
    return any(
        (mine := _parameters(flow.origins(entry))) != (other := _parameters(flow.baseline_origins(entry)))
        and bool(mine and other)
        for record in records
        if candidate.construct.get(record.name) == OPTIMIZER
        for entry in record.items
        if entry.is_input and has_tensor(entry)
    )


def _taken(part: RunPart) -> set[str]:
    leaves = (
        item.leaf
        for name, parent in part.construct.items()
        if parent == OPTIMIZER and name in part.records
        for item in part.records[name].items()
        if item.role == "input" and isinstance(item.leaf, TensorLeaf)
    )
    return {name for leaf in leaves for name in _parameters(part.origins_of(leaf))}


def _parameters(origins: Iterable[Origin]) -> set[str]:
    return {origin.name for origin in origins if origin.kind == "parameter"}
