"""msprobe's `-da`: each rank's records as json, and the first node that differs on any rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from torchparity.comparing.measuring.checksums import checksum_of
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.mode import Mode
from torchparity.comparing.measuring.rounding import is_apart
from torchparity.comparing.msprobe.columns import ABSENT
from torchparity.comparing.msprobe.rows import TableRow
from torchparity.naming import RECOMPUTE_MARK

if TYPE_CHECKING:
    import polars as pl

_VALUES = ("max", "min", "mean", "l2norm")
Node = dict[str, Any]


class JudgedPart(Protocol):
    """What the analysis reads of one step of one rank."""

    @property
    def step(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def mode(self) -> Mode: ...
    @property
    def rows(self) -> Sequence[TableRow]: ...
    @property
    def frame(self) -> pl.DataFrame: ...
    @property
    def parents(self) -> Mapping[str, str | None]: ...
    def stack_of(self, record: str, /) -> Sequence[str]: ...


def analysis_files(parts: Sequence[JudgedPart], timestamp: str) -> Iterator[tuple[str, Node]]:
    """Yield compare_result_rank{r}.json for each rank, and diff_analyze.json for the first step that differs."""
    nodes: dict[str, list[Node]] = {}
    steps = {part.step for part in parts}
    first = next((part.step for part in parts if part.divergence is not None), None)
    for part in parts:
        step = f"_step{part.step}" if len(steps) > 1 else ""
        yield f"compare_result{step}_rank{part.rank}_{timestamp}.json", _records(part)
        if part.step == first and (node := _first_node(part)) is not None:
            nodes[f"rank_{part.rank}"] = [node]
    if nodes:
        yield f"diff_analyze_{timestamp}.json", _earliest(nodes)


def _earliest(nodes: dict[str, list[Node]]) -> dict[str, list[Node]]:
    """Return the ranks that differ after the fewest communications: those where a difference cannot have come from.

    Ranks meet when they communicate, so what one does between its second and its third call happens after all that
    another did before its second. This holds for calls that all ranks take part in.
    """
    fewest = min(node[0]["communications"] for node in nodes.values())
    return {rank: node for rank, node in nodes.items() if node[0]["communications"] == fewest}


def _records(part: JudgedPart) -> Node:
    columns, table = part.frame.columns, part.frame.rows()
    records: Node = {}
    for row, cells in zip(part.rows, table, strict=True):
        entry = records.setdefault(row.record, {"is_same": True, "op_items": []})
        entry["is_same"] = entry["is_same"] and not is_apart(row.comparison)
        entry["op_items"].append({**dict(zip(columns, cells, strict=True)), "state": row.comparison.role})
    return records


def _first_node(part: JudgedPart) -> Node | None:
    divergence = part.divergence
    if divergence is None:
        return None
    directions = {row.record: row.comparison.direction for row in part.rows}
    order = list(directions).index(divergence.record)
    calls = [name for name, direction in list(directions.items())[:order] if direction == "forward"]
    communications = sum(name.startswith("Distributed.") and not name.endswith(RECOMPUTE_MARK) for name in calls)
    items = [row.comparison for row in part.rows if row.record == divergence.record]
    received = any(is_apart(entry) for entry in items if entry.is_input)
    return {
        "op_name": divergence.record,
        "data_info": {
            "input": {entry.name: _values(entry, part.mode) for entry in items if entry.is_input},
            "output": {entry.name: _values(entry, part.mode) for entry in items if not entry.is_input},
        },
        "stack_info": list(part.stack_of(divergence.record)),
        "finding": "differs already in its inputs/parameters" if received else "inputs equal, output differs",
        "module": part.parents.get(divergence.record),
        "order": order,
        "before_communication": communications == 0,
        "communications": communications,
    }


def _values(comparison: ItemComparison, mode: Mode) -> Node:
    sides = (("NPU", comparison.candidate), ("Bench", comparison.baseline))
    if mode == "checksums":
        left, right = (checksum_of(side) or ABSENT for _, side in sides)
        return {"NPU MD5": left, "BENCH MD5": right}
    values: Node = {}
    for prefix, side in sides:
        numbers = side.values() if side is not None else (ABSENT,) * len(_VALUES)
        values |= {f"{prefix} {name}": str(number) for name, number in zip(_VALUES, numbers, strict=True)}
    return values | {"deviation": str(comparison.deviation)}
