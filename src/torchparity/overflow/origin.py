"""The origin of nan and inf in a run: the first rank and record, found over all ranks.

What a communication only passed on is traced back to the rank that sent it. No torch is needed, and nothing runs again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from torchparity.code_lines import code_lines
from torchparity.communication.clocks import Clocks
from torchparity.communication.meetings import Meetings
from torchparity.errors import ConfigError
from torchparity.overflow.nonfinite import Arising, arising_on, has_statistics
from torchparity.records import TensorLeaf
from torchparity.storage import RunPart, record_to_json
from torchparity.text import counted
from torchparity.whole_file import whole_file

_DATA = ("input_args", "input_kwargs", "input", "output", "output_kwargs", "parameters")


@dataclass(frozen=True)
class OriginNode:
    """One record where nan or inf arises, with what is known of its place."""

    arising: Arising
    part: RunPart
    clock: int  # how many communications may have led here, one after the other

    @property
    def order(self) -> tuple[int, bool, bool, int, int]:
        """The key that sorts by time; a communication comes after what its ranks did before it.

        What no record of a rank made may have come from a rank that made it, by ways that are not recorded.
        """
        found = self.arising
        is_unmade = found.place == "input" and not self._named_maker()
        return self.clock, found.place == "communication", is_unmade, found.position, found.rank

    def sentence(self) -> str:
        """Return what arises where, and who is at fault."""
        found = self.arising
        where = f"step {self.part.step}, rank {found.rank}: {found.record.name}"
        lines = code_lines(self.part.stack_of(found.record.name))
        line = f" ({'; '.join(lines)})" if lines else ""
        return f"{where}: {self._clause()}{line}."

    def _clause(self) -> str:
        found = self.arising
        if found.place == "input":
            return f"{found.item.name}{self._maker()} has {found.what} already"
        amount = f"{found.item.name} has {_amount(found)}"
        if found.place == "computation":
            return f"{found.what} arises here: what it received is finite, {amount}"
        if found.unrecorded or not found.is_group_known:
            ranks = ", ".join(map(str, found.unrecorded)) or "of its group"
            others = f"{'rank' if len(found.unrecorded) == 1 else 'ranks'} {ranks}"
            return f"{found.what} arrives here: {amount}, and what {others} sent is not recorded"
        return f"{found.what} arises in the communication itself: what the ranks sent is finite, {amount}"

    def _maker(self) -> str:
        return self._named_maker() or ", which no record made,"

    def _named_maker(self) -> str:
        leaf = self.arising.item.leaf
        origins = self.part.origins_of(leaf) if isinstance(leaf, TensorLeaf) else ()
        if any(origin.kind == "outside" for origin in origins):
            return ", which comes from outside,"
        named = next((origin for origin in origins if origin.kind in ("parameter", "buffer")), None)
        if named is not None:
            return f" ({named.kind} {named.name})" if named.name else f", a {named.kind},"
        earlier = next((origin for origin in origins if origin.kind == "earlier"), None)
        return f", which {earlier.name} of step {earlier.step} made," if earlier is not None else ""

    def to_json(self) -> dict[str, Any]:
        """Return the node as msprobe's anomaly_analyze file has it, with torchparity's keys after those."""
        record, part = self.arising.record, self.part
        entry = record_to_json(record)
        return {
            "op_name": record.name,
            "data_info": {key: entry[key] for key in entry if key in _DATA} or entry,
            "construct_info": [*_enclosing(record.name, part), record.name],
            "stack_info": list(part.stack_of(record.name)),
            "what": self.arising.what,
            "item": self.arising.item.name,
            "place": self.arising.place,
            "position": self.arising.position,
            "sentence": self.sentence(),
        }


@dataclass(frozen=True)
class Origins:
    """The answer: the first node, and those of other ranks that arose independently between the same communications."""

    nodes: tuple[OriginNode, ...]
    looked_at: str

    def sentence(self) -> str:
        """Return the answer in one sentence."""
        if not self.nodes:
            return f"No nan or inf arises in {self.looked_at}."
        return self.nodes[0].sentence()

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return the content of anomaly_analyze.json: nodes by rank."""
        found: dict[str, list[dict[str, Any]]] = {}
        for node in self.nodes:
            found.setdefault(f"rank_{node.arising.rank}", []).append(node.to_json())
        return found

    def write(self, folder: Path) -> Path:
        """Write anomaly_analyze.json into a folder."""
        path = folder / f"anomaly_analyze_{time.time_ns()}.json"
        with whole_file(path) as temporary:
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(self.to_json()), indent=1))
        return path


def origins_of(parts: Sequence[RunPart]) -> Origins:
    """Return where nan or inf first arises in the parts of a run: in the earliest step that has any."""
    if not any(map(has_statistics, parts)):
        raise ConfigError("--origin reads Max and Min, and this run has none; record task statistics or tensor.")
    by_step: dict[int, list[RunPart]] = {}
    for part in parts:
        by_step.setdefault(part.step, []).append(part)
    records = sum(len(part.records) for part in parts)
    looked_at = f"{counted(records, 'record')} of {counted(len({part.rank for part in parts}), 'rank')}"
    for step in sorted(by_step):
        nodes = _nodes(by_step[step])
        if nodes:
            return Origins(nodes, looked_at)
    return Origins((), looked_at)


def _nodes(parts: Sequence[RunPart]) -> tuple[OriginNode, ...]:
    meetings = Meetings(parts)
    found = [arising for rank in meetings.parts for arising in arising_on(rank, meetings)]
    if not found:
        return ()
    clocks = Clocks(meetings)
    nodes = sorted((_node(arising, meetings, clocks) for arising in found), key=lambda node: node.order)
    first, kept = nodes[0], dict[int, OriginNode]()
    for node in nodes:
        if node.clock == first.clock and node.arising.place == first.arising.place:
            kept.setdefault(node.arising.rank, node)
    return tuple(kept.values())


def _node(arising: Arising, meetings: Meetings, clocks: Clocks) -> OriginNode:
    at = clocks.after if arising.place == "communication" else clocks.before
    return OriginNode(arising, meetings.parts[arising.rank], at(arising.rank, arising.position))


def _enclosing(record: str, part: RunPart) -> list[str]:
    """Return the modules around a record, outermost first."""
    found: list[str] = []
    name = part.construct.get(record)
    while name is not None and name not in found:
        found.insert(0, name)
        name = part.construct.get(name)
    return found


def _amount(found: Arising) -> str:
    leaf = found.item.leaf
    numbers = leaf.statistics if isinstance(leaf, TensorLeaf) else None
    if numbers is None or numbers.nan_count is None:
        return found.what
    infinities = (numbers.inf_count or 0) + (numbers.negative_inf_count or 0)
    counts = [f"{count} {what}" for count, what in ((numbers.nan_count, "nan"), (infinities, "inf")) if count]
    total = leaf.numel if isinstance(leaf, TensorLeaf) else 0
    return f"{' and '.join(counts)} among {total:,} elements"
