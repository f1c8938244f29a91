"""Summaries of a run, of one of its parts and of one tensor, in numbers for people."""

from __future__ import annotations

import msgspec

from torchparity.records import Statistics


class TensorProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers that a person looks at in one tensor; `places` says at which index max, min and the first nan sit."""

    dtype: str
    shape: tuple[int, ...]
    checksum: str
    statistics: Statistics
    histogram_edges: list[float]
    histogram_counts: list[int]
    places: dict[str, list[int]]


class RecordSize(msgspec.Struct, frozen=True):
    """A record and what it cost: bytes of its tensors, or seconds of its call."""

    name: str
    amount: float


class PartSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one rank in one step, in numbers.

    `missing` is what the writer says that it left out; `problems` has that and all damage.
    """

    step: int
    rank: int
    folder: str
    task: str
    level: str
    tool: str | None
    environment: dict[str, str]
    is_complete: bool
    has_checksums: bool
    records: dict[str, int]
    items: int
    tensors: int
    tensor_bytes: int
    stored_bytes: int
    nonfinite_records: int | None
    largest: list[RecordSize]
    slowest: list[RecordSize]
    missing: list[str]
    is_damaged: bool
    problems: list[str]


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run at a glance."""

    path: str
    steps: list[int]
    ranks: list[int]
    parts: list[PartSummary]
