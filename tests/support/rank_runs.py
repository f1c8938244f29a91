"""Runs of several ranks written record by record, for what takes many processes or a broken library to record."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.runs import leaf_of
from torchparity import HostTensor, Record, RunWriter
from torchparity.naming import flatten, parse_record
from torchparity.records import GroupLeaf, StackGroup, ValueLeaf


class RankRun:
    """The calls of every rank in one step; arrays stand for tensors, tuples for groups, anything else for itself."""

    def __init__(self, ranks: int, task: str = "statistics") -> None:
        self.ranks, self.task = ranks, task
        self._calls: dict[int, list[tuple[Record, dict[str, HostTensor]]]] = defaultdict(list)

    def call(self, rank: int, name: str, inputs: list[Any], outputs: list[Any], **keywords: Any) -> None:
        """Add a call of one rank; `Torch.log` is numbered by itself."""
        count = sum(record.name.startswith(f"{name}.") for record, _ in self._calls[rank])
        full = f"{name}.{count}.forward"
        values: dict[str, HostTensor] = {}
        if self.task == "tensor":
            for role, nests in (("input", inputs), ("output", outputs)):
                for index, nest in enumerate(nests):
                    for item, entry in flatten(f"{role}.{index}", nest, (np.ndarray, tuple)):
                        if isinstance(entry, np.ndarray):
                            values[item] = HostTensor.from_numpy(entry)
        record = Record(
            name=full,
            direction=parse_record(full).direction,
            input_args=[_nest(entry) for entry in inputs],
            input_kwargs={key: _nest(entry) for key, entry in keywords.items()},
            output=[_nest(entry) for entry in outputs],
        )
        self._calls[rank].append((record, values))

    def write(self, path: Path, *, only: tuple[int, ...] | None = None) -> Path:
        """Write the ranks, or those of `only`."""
        for rank in range(self.ranks) if only is None else only:
            environment = {"world.size": str(self.ranks)}
            with RunWriter(path, task=self.task, rank=rank, environment=environment) as writer:
                writer.start_step(0)
                for record, values in self._calls[rank]:
                    writer.add(record, values)
                stacks = [
                    StackGroup([record.name], ["File job.py, line 7, in main"]) for record, _ in self._calls[rank]
                ]
                writer.finish_step(stacks=stacks, construct={record.name: None for record, _ in self._calls[rank]})
        return path


def _nest(entry: Any) -> Any:
    if isinstance(entry, np.ndarray):
        return leaf_of(HostTensor.from_numpy(entry))
    if isinstance(entry, tuple):
        return GroupLeaf(ranks=entry, id="-".join(map(str, entry)))
    if isinstance(entry, list):
        return [_nest(each) for each in entry]
    if isinstance(entry, dict):
        return {key: _nest(each) for key, each in entry.items()}
    return ValueLeaf(type(entry).__name__, entry)
