"""Names of the files with results: compare_result_rank0_20260131120000 and its like."""

from __future__ import annotations

from collections.abc import Sequence

from torchparity.comparing.part import PartComparison


class FileNames:
    """The names of the files of one comparison; steps and ranks are in them where there are several."""

    def __init__(self, parts: Sequence[PartComparison], timestamp: str, *, names_ranks: bool = False) -> None:
        self._timestamp = timestamp
        self._has_steps = len({part.step for part in parts}) > 1
        self.has_ranks = names_ranks or len({part.rank for part in parts}) > 1

    def of_comparison(self, what: str) -> str:
        """Return the name of a file about all parts."""
        return f"{what}_{self._timestamp}"

    def of_part(self, what: str, part: PartComparison) -> str:
        """Return the name of a file about one part, without its suffix."""
        step = f"_step{part.step}" if self._has_steps else ""
        # A process that has no rank goes by its own number.
        kind = "proc" if part.candidate.folder.name.startswith("proc") else "rank"
        rank = f"_{kind}{part.rank}" if self.has_ranks else ""
        return f"{what}{step}{rank}_{self._timestamp}"

    def of_table(self, part: PartComparison, suffix: str) -> str:
        """Return the name of a part's table, with its suffix."""
        # compare_result_rank0.json is the name that -da has for something else.
        what = "compare_table" if suffix == ".json" and self.has_ranks else "compare_result"
        has_points_only = bool(part.comparisons) and all(entry.direction == "debug" for entry in part.comparisons)
        is_debug = has_points_only and what == "compare_result"
        return f"{self.of_part(f'debug_{what}' if is_debug else what, part)}{suffix}"
