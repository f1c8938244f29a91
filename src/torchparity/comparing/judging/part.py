"""The part of a comparison that the judge reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.mode import Mode
from torchparity.comparing.pairing.records import RecordPair
from torchparity.storage import RunPart


class ComparedPart(Protocol):
    """One step of one rank on both sides: its records paired, their items compared."""

    candidate: RunPart
    baseline: RunPart
    pairs: list[RecordPair]

    @property
    def step(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def mode(self) -> Mode: ...
    @property
    def groups(self) -> Sequence[Sequence[ItemComparison]]: ...
    @property
    def parents(self) -> Mapping[str, str | None]: ...
    def lines_of(self, record: str, /) -> Sequence[str]: ...
