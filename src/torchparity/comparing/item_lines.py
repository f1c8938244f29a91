"""A line for every item that was compared, as msprobe's `is_print_compare_log` asks for it."""

from __future__ import annotations

from collections.abc import Iterator

from torchparity.comparing.runs import Comparison


def item_lines(comparison: Comparison) -> Iterator[list[str]]:
    """Yield the lines of each part: one for each item that both runs have."""
    for part in comparison.parts:
        yield [
            f"rank {part.rank}: {row.candidate.name} against {row.baseline.name}: {row.verdict or 'no warning'}"
            for row in part.rows
            if row.candidate is not None and row.baseline is not None
        ]
