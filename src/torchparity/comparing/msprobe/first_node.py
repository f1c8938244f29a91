"""`-da`: each rank's records as json, and the first node that differs, found across ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from torchparity.comparing.judging.deviation import deviation, is_apart
from torchparity.comparing.measuring.metrics import checksums, fill_statistics
from torchparity.comparing.pairing.rows import Row, Side
from torchparity.comparing.part import PartComparison
from torchparity.comparing.runs import Comparison
from torchparity.errors import RunWriteError
from torchparity.naming import RECOMPUTE_MARK

_VALUES = ("max", "min", "mean", "l2norm")


def write_analysis(done: Comparison, folder: Path) -> list[Path]:
    """Write compare_result_rank{r}.json for each rank, and diff_analyze.json for the first step that differs."""
    written: list[Path] = []
    nodes: dict[str, list[dict[str, Any]]] = {}
    steps = {part.step for part in done.parts}
    first = next((part.step for part in done.parts if part.divergence is not None), None)
    for part in done.parts:
        step = f"_step{part.step}" if len(steps) > 1 else ""
        path = folder / f"compare_result{step}_rank{part.rank}_{done.timestamp}.json"
        written.append(_write(path, _records(part)))
        if part.step == first and (found := _first_node(part)) is not None:
            nodes[f"rank_{part.rank}"] = [found]
    if nodes:
        written.append(_write(folder / f"diff_analyze_{done.timestamp}.json", _earliest(nodes)))
    return written


def _earliest(nodes: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Keep the ranks that differ after the fewest communications: those where a difference cannot have come from.

    Ranks meet when they communicate, so what one does between its second and its third call happens after all that
    another did before its second. This holds for calls that all ranks take part in.
    """
    first = min(found[0]["communications"] for found in nodes.values())
    return {rank: found for rank, found in nodes.items() if found[0]["communications"] == first}


def _records(part: PartComparison) -> dict[str, Any]:
    columns, rows = part.frame.columns, part.frame.rows()
    found: dict[str, Any] = {}
    for row, cells in zip(part.rows, rows, strict=True):
        entry = found.setdefault(row.record, {"is_same": True, "op_items": []})
        entry["is_same"] = entry["is_same"] and not is_apart(row, part.mode)
        entry["op_items"].append({**dict(zip(columns, cells, strict=True)), "state": row.role})
    return found


def _first_node(part: PartComparison) -> dict[str, Any] | None:
    found = part.divergence
    if found is None:
        return None
    directions = {row.record: row.direction for row in part.rows}
    order = list(directions).index(found.record)
    names = [name for name, direction in list(directions.items())[:order] if direction == "forward"]
    before = sum(name.startswith("Distributed.") and not name.endswith(RECOMPUTE_MARK) for name in names)
    rows = [row for row in part.rows if row.record == found.record]
    return _node(part, found.record, rows, order, before)


def _node(part: PartComparison, record: str, rows: list[Row], order: int, communications: int) -> dict[str, Any]:
    received = any(is_apart(row, part.mode) for row in rows if row.is_input)
    return {
        "op_name": record,
        "data_info": {
            "input": {row.name: _values(row, part) for row in rows if row.is_input},
            "output": {row.name: _values(row, part) for row in rows if not row.is_input},
        },
        "stack_info": list(part.stack_of(record)),
        "finding": "differs already in its inputs/parameters" if received else "inputs equal, output differs",
        "module": part.candidate.construct.get(record),
        "order": order,
        "before_communication": communications == 0,
        "communications": communications,
    }


def _values(row: Row, part: PartComparison) -> dict[str, Any]:
    if part.mode == "md5":
        left, right = checksums(row)
        return {"NPU MD5": left, "BENCH MD5": right}
    if not row.relative:
        fill_statistics(row)
    found: dict[str, Any] = {}
    for side, prefix in ((row.candidate, "NPU"), (row.baseline, "Bench")):
        found |= {f"{prefix} {name}": str(value) for name, value in zip(_VALUES, _of(side), strict=True)}
    return found | {"deviation": str(deviation(row, part.mode))}


def _of(side: Side | None) -> tuple[Any, ...]:
    return side.values() if side is not None else ("N/A",) * len(_VALUES)


def _write(path: Path, content: Any) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1))
    except OSError as error:
        raise RunWriteError(path, (error.strerror or str(error)).lower()) from None
    return path
