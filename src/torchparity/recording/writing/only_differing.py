"""`bench_path`: of a recording with checksums, keep the tensors of those records that differ from an earlier one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from torchparity.errors import ConfigError, NotRecordedError
from torchparity.records import Record, TensorLeaf
from torchparity.storage import RunPart, SharedTensor, open_run
from torchparity.text import counted

Kept = tuple[Record, dict[str, SharedTensor]]


class OnlyDiffering:
    """Compares each step with the same step and rank of the baseline, by names, dtypes, shapes and checksums."""

    def __init__(self, baseline: Path, *, most: int, rank: int) -> None:
        self._path, self._rank, self._most = baseline, rank, most
        self._names: list[str] = []
        self._alone = 0
        first = self._part(open_run(baseline).steps[0])
        if first is not None and not any(_checksums(record) for record in first.records.values()):
            raise ConfigError(f"tensor.bench_path: the run at {baseline} has no checksums; record it with md5.")

    @property
    def is_done(self) -> bool:
        """Whether as many records differ as `diff_nums` asks for."""
        return 0 < self._most <= len(self._names)

    def sentences(self) -> list[str]:
        found = []
        if self._names:
            shown = ", ".join(self._names[:8]) + (", ..." if len(self._names) > 8 else "")
            found.append(f"{counted(len(self._names), 'record')} differing from {self._path}: {shown}")
        else:
            found.append(f"no record differs from {self._path}")
        if self._alone:
            found.append(f"{counted(self._alone, 'record')} not in {self._path}")
        return found

    def of_step(self, step: int, records: Iterable[Kept]) -> list[Kept]:
        """Return a step's records, with values for those alone that differ."""
        part = self._part(step)
        kept: list[Kept] = []
        for record, values in records:
            known = part.records.get(record.name) if part is not None and not self.is_done else None
            differs = known is not None and _checksums(record) != _checksums(known)
            if differs:
                self._names.append(record.name)
            elif known is None and not self.is_done:
                self._alone += 1
            kept.append((record, values if differs else {}))
        return kept

    def _part(self, step: int) -> RunPart | None:
        try:
            return open_run(self._path).part(step=step, rank=self._rank)  # anew: a part keeps what it has read
        except NotRecordedError:
            return None


def _checksums(record: Record) -> dict[str, tuple[str, tuple[int, ...], str]]:
    """Return what is to be equal of a record's tensors; those without a checksum say nothing."""
    return {
        item.name: (item.leaf.dtype, item.leaf.shape, item.leaf.checksum)
        for item in record.items()
        if isinstance(item.leaf, TensorLeaf) and item.leaf.checksum is not None
    }
