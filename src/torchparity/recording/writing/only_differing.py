"""`bench_path`: store values only for records whose checksums differ from those of an earlier run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from torchparity.errors import ConfigError, NotRecordedError
from torchparity.records import Record, TensorLeaf
from torchparity.storage import RunPart, SharedTensor, open_run
from torchparity.text import counted

WithValues = tuple[Record, dict[str, SharedTensor]]


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
        """True where as many records differ as `diff_nums` asks for."""
        return 0 < self._most <= len(self._names)

    def sentences(self) -> list[str]:
        sentences = []
        if self._names:
            shown = ", ".join(self._names[:8]) + (", ..." if len(self._names) > 8 else "")
            sentences.append(f"{counted(len(self._names), 'record')} differing from {self._path}: {shown}")
        else:
            sentences.append(f"no record differs from {self._path}")
        if self._alone:
            sentences.append(f"{counted(self._alone, 'record')} not in {self._path}")
        return sentences

    def of_step(self, step: int, records: Iterable[WithValues]) -> list[WithValues]:
        """Return a step's records, with values only for those that differ."""
        part = self._part(step)
        selected: list[WithValues] = []
        for record, values in records:
            expected = part.records.get(record.name) if part is not None and not self.is_done else None
            differs = expected is not None and _checksums(record) != _checksums(expected)
            if differs:
                self._names.append(record.name)
            elif expected is None and not self.is_done:
                self._alone += 1
            selected.append((record, values if differs else {}))
        return selected

    def _part(self, step: int) -> RunPart | None:
        try:
            # Opened again each time: a part caches what it has read.
            return open_run(self._path).part(step=step, rank=self._rank)
        except NotRecordedError:
            return None


def _checksums(record: Record) -> dict[str, tuple[str, tuple[int, ...], str]]:
    """Return dtype, shape and checksum of each tensor of a record that has a checksum."""
    return {
        item.name: (item.leaf.dtype, item.leaf.shape, item.leaf.checksum)
        for item in record.items()
        if isinstance(item.leaf, TensorLeaf) and item.leaf.checksum is not None
    }
