"""The report on one finished step: what the writer put on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchparity.storage.reading.layout import is_finished


@dataclass(frozen=True)
class StepReport:
    """One finished step: its folder, the size of its files, and what is missing in them.

    `left_out` has a sentence for each record that could not be written; `valueless` is the number of
    tensors of which everything but the values was written, for want of space.
    """

    folder: Path
    records: int
    bytes: int
    left_out: tuple[str, ...] = ()
    valueless: int = 0

    def is_on_disk(self) -> bool:
        """Tell whether the step is still there: somebody may have removed its folder meanwhile."""
        return is_finished(self.folder)
