"""msprobe's `-da`: each rank's records as json, and the first node that differs on any rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Protocol

from torchparity.comparing.judging.evidence.operators import communicates
from torchparity.comparing.judging.verdict import Finding, Kind, Verdict
from torchparity.comparing.judging.wording.sentences import finding_sentence
from torchparity.comparing.measuring.checksums import checksum_of
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.mode import Mode
from torchparity.comparing.measuring.rounding import is_apart
from torchparity.comparing.msprobe.columns import ABSENT
from torchparity.comparing.msprobe.rows import TableRow
from torchparity.errors import RecordNameError
from torchparity.naming import RECOMPUTE_MARK, parse_record
from torchparity.records import number_to_json
from torchparity.storage import RunPart

if TYPE_CHECKING:
    import polars as pl

_VALUES = ("max", "min", "mean", "l2norm")
_FOUND = {Kind.ARGUMENT: "called with another argument", Kind.MISSING_GRADIENT: "a gradient is missing"}
Node = dict[str, Any]


class JudgedPart(Protocol):
    """The facts that the analysis reads of one step of one rank."""

    candidate: RunPart

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


def analysis_files(parts: Sequence[JudgedPart], verdict: Verdict, timestamp: str) -> Iterator[tuple[str, Node]]:
    """Yield compare_result_rank{r}.json for each rank, and diff_analyze.json with the nodes where the runs part."""
    steps = {part.step for part in parts}
    for part in parts:
        step = f"_step{part.step}" if len(steps) > 1 else ""
        yield f"compare_result{step}_rank{part.rank}_{timestamp}.json", _records(part)
    if verdict.first is not None:
        yield f"diff_analyze_{timestamp}.json", _nodes(parts, verdict.first, verdict.also)


def _nodes(parts: Sequence[JudgedPart], first: Finding, also: Sequence[Finding]) -> dict[str, list[Node]]:
    """Return the nodes of each rank: the first finding, and the independent others after as many communications.

    Ranks meet when they communicate, so what one does between its second and its third call happens after all that
    another did before its second. This holds for calls that all ranks take part in.
    """
    by_place = {(part.step, part.rank): part for part in parts}
    earliest = _node(by_place[first.step, first.rank], first)
    nodes = {f"rank_{first.rank}": [earliest]}
    for finding in also:
        if finding.step == first.step:
            node = _node(by_place[finding.step, finding.rank], finding)
            if node["communications"] == earliest["communications"]:
                nodes.setdefault(f"rank_{finding.rank}", []).append(node)
    return nodes


def _records(part: JudgedPart) -> Node:
    columns, table = part.frame.columns, part.frame.rows()
    records: Node = {}
    for row, cells in zip(part.rows, table, strict=True):
        entry = records.setdefault(row.record, {"is_same": True, "op_items": []})
        entry["is_same"] = entry["is_same"] and not is_apart(row.comparison)
        entry["op_items"].append({**dict(zip(columns, cells, strict=True)), "state": row.comparison.role})
    return records


def _node(part: JudgedPart, finding: Finding) -> Node:
    directions = {row.record: row.comparison.direction for row in part.rows}
    before = takewhile(lambda name: name != finding.record, directions)
    calls = [name for name in before if directions[name] == "forward"]
    communications = sum(communicates(name) and not name.endswith(RECOMPUTE_MARK) for name in calls)
    items = [row.comparison for row in part.rows if row.record == finding.record]
    return {
        "op_name": finding.record,
        **_operator(finding.record),
        "position": list(part.candidate.records).index(finding.record),
        "data_info": {
            "input": {entry.name: _values(entry, part.mode) for entry in items if entry.is_input},
            "output": {entry.name: _values(entry, part.mode) for entry in items if not entry.is_input},
        },
        "stack_info": list(part.stack_of(finding.record)),
        "finding": _found(finding),
        "kind": finding.kind.value,
        "item": finding.item,
        "sentence": finding_sentence(finding, by_checksum=part.mode == "checksums"),
        "module": part.parents.get(finding.record),
        "communication": _communication(finding),
        "before_communication": communications == 0,
        "communications": communications,
    }


def _communication(finding: Finding) -> str | None:
    """Return whether a communication is at fault or only passed on what it was given; None of other records."""
    if not communicates(finding.record):
        return None
    return "at fault" if finding.item.startswith("output") else "passed on"


def _found(finding: Finding) -> str:
    """Return which side of a record differs, as the finding says."""
    if finding.kind in _FOUND:
        return _FOUND[finding.kind]
    if finding.is_call_alone:
        return "only the candidate makes this call"
    if not finding.item.startswith("output"):
        return "differs already in its inputs/parameters"
    if finding.input_deviation == 0:
        return "inputs equal, output differs"
    return f"inputs {'differ' if finding.kind is Kind.UNKNOWN else 'within rounding'}, output differs"


def _operator(record: str) -> Node:
    """Return the type of a record and its operator; of a module, its class."""
    try:
        name = parse_record(record)
    except RecordNameError:  # a hand-written run may have any name
        return {"type": "", "operator": record}
    return {"type": name.api_type, "operator": name.module_class or name.operator}


def _values(comparison: ItemComparison, mode: Mode) -> Node:
    sides = (("NPU", comparison.candidate), ("Bench", comparison.baseline))
    if mode == "checksums":
        left, right = (checksum_of(side) or ABSENT for _, side in sides)
        return {"NPU MD5": left, "BENCH MD5": right}
    values: Node = {}
    for prefix, side in sides:
        numbers = side.values() if side is not None else (ABSENT,) * len(_VALUES)
        values |= {f"{prefix} {name}": str(number) for name, number in zip(_VALUES, numbers, strict=True)}
    return values | {"deviation": number_to_json(comparison.deviation)}
