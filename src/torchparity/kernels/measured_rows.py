"""Rows that an arena measured, and the statistics that follow from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from torchparity.kernels import row
from torchparity.kernels.statistics import statistics_of_rows
from torchparity.records import Statistics

Reading = tuple[Any, Statistics, str | None]  # the owner given to `add`, its statistics, its checksum


@dataclass(frozen=True)
class MeasuredRows:
    """The measurements of a step on one device, in the order of `add`.

    `others` are the statistics of tensors whose row does not tell them, such as integers, by place.
    """

    owners: Sequence[Any]
    counts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.float64]
    checksums: npt.NDArray[np.uint32] | None = None
    others: Mapping[int, Statistics] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.owners)

    def are_plain(self) -> npt.NDArray[np.bool_]:
        """Tell of each tensor whether its numbers, their sum and their squares are all finite, and its row says all."""
        sums = self.rows[:, [row.SUM, row.SQUARES]]
        plain = np.isfinite(sums).all(axis=1) & (self.rows[:, row.NONFINITE] == 0).all(axis=1)
        plain[list(self.others)] = False
        return np.asarray(plain, np.bool_)

    def readings(self) -> Iterator[Reading]:
        """Return every tensor's reading."""
        statistics = statistics_of_rows(self.counts, self.rows)
        for place, told in self.others.items():
            statistics[place] = told
        return zip(self.owners, statistics, self._checksum_texts(), strict=True)

    def reading(self, place: int) -> tuple[Statistics, str | None]:
        """Return the statistics and the checksum of one tensor."""
        part = slice(place, place + 1)
        told = self.others.get(place)
        checksum = None if self.checksums is None else f"{self.checksums[place]:08x}"
        return told or statistics_of_rows(self.counts[part], self.rows[part])[0], checksum

    def _checksum_texts(self) -> list[str | None]:
        if self.checksums is None:
            return [None] * len(self.owners)
        return [f"{crc:08x}" for crc in self.checksums.tolist()]


def joined(parts: Sequence[MeasuredRows]) -> MeasuredRows:
    """Return the rows of several arenas as those of one."""
    if len(parts) == 1:
        return parts[0]
    firsts = np.cumsum([0, *map(len, parts)]).tolist()
    others = {
        first + place: told for first, part in zip(firsts, parts, strict=False) for place, told in part.others.items()
    }
    has_checksums = any(part.checksums is not None for part in parts)
    zeros = [np.zeros(len(part), np.uint32) if part.checksums is None else part.checksums for part in parts]
    return MeasuredRows(
        [owner for part in parts for owner in part.owners],
        np.concatenate([np.empty(0, np.int64), *(part.counts for part in parts)]),
        np.concatenate([np.empty((0, row.FIELDS)), *(part.rows for part in parts)]),
        np.concatenate(zeros) if has_checksums else None,
        others,
    )
