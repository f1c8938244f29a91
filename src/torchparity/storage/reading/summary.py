"""A summary of a run in numbers, for `torchparity show`."""

from __future__ import annotations

import heapq
import math
from collections import Counter

from torchparity.errors import ParityError
from torchparity.records import Record, RunInfo, TensorLeaf
from torchparity.storage.reading.run_part import RunPart
from torchparity.storage.reading.run_reader import RunReader
from torchparity.summaries import PartSummary, RecordSize, RunSummary
from torchparity.tensors import DTYPES

_MOST = 5


def summarise(run: RunReader, parts: list[RunPart], *, verify: bool = False) -> RunSummary:
    """Return the numbers of `parts`; one that cannot be read says why and has no records.

    Missing files are noticed; `verify` reads every tensor to notice damaged bytes too.
    """
    steps, ranks = sorted({part.step for part in parts}), sorted({part.rank for part in parts})
    summaries = [_part(part, verify=verify) for part in parts]
    return RunSummary(path=str(run.path), steps=steps, ranks=ranks, parts=summaries)


def nonfinite_records(part: RunPart) -> list[str]:
    """Return the names of the records with a nan or an infinity in their statistics."""
    return [record.name for record in part.records.values() if _is_nonfinite(record)]


def _part(part: RunPart, *, verify: bool) -> PartSummary:
    try:
        info, records = part.info, list(part.records.values())
        missing, damage = part.missing, part.damage(deep=verify)
    except ParityError as error:
        info, records, missing, damage = RunInfo(task="unknown", level="unknown"), [], [], [str(error)]
    sizes = {record.name: _tensor_bytes(record) for record in records}
    times = {record.name: record.seconds for record in records if record.seconds is not None}
    items = [item.leaf for record in records for item in record.items()]
    tensors = [leaf for leaf in items if isinstance(leaf, TensorLeaf)]
    measured = any(leaf.statistics for leaf in tensors)
    return PartSummary(
        step=part.step,
        rank=part.rank,
        folder=str(part.folder),
        task=info.task,
        level=info.level,
        tool=info.tool,
        environment=info.environment,
        is_complete=part.is_complete,
        has_checksums=any(leaf.checksum for leaf in tensors),
        records=dict(Counter(record.direction for record in records)),
        items=len(items),
        tensors=len(tensors),
        tensor_bytes=sum(sizes.values()),
        stored_bytes=part.stored_bytes(),
        nonfinite_records=sum(_is_nonfinite(record) for record in records) if measured else None,
        largest=_most(sizes),
        slowest=_most(times),
        missing=missing,
        is_damaged=bool(damage),
        problems=[*(f"{part.folder}: {sentence}" for sentence in missing), *damage],
    )


def _most(amounts: dict[str, int] | dict[str, float]) -> list[RecordSize]:
    most = heapq.nlargest(_MOST, amounts.items(), key=lambda entry: entry[1])
    return [RecordSize(name, amount) for name, amount in most if amount]


def _tensor_bytes(record: Record) -> int:
    """Return the bytes its tensors had in memory, whether or not they were stored."""
    return sum(
        item.leaf.numel * DTYPES[item.leaf.dtype].itemsize
        for item in record.items()
        if isinstance(item.leaf, TensorLeaf) and item.leaf.dtype in DTYPES
    )


def _is_nonfinite(record: Record) -> bool:
    return any(
        isinstance(value, float) and not math.isfinite(value)
        for item in record.items()
        if isinstance(item.leaf, TensorLeaf) and item.leaf.statistics
        for value in (item.leaf.statistics.max, item.leaf.statistics.min)
    )
