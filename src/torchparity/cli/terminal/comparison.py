"""The answer to a comparison in lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchparity.text import counted

if TYPE_CHECKING:
    from torchparity.comparing import Comparison

_MOST_OTHERS = 5
_MOST_FILES = 24


def answer_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the headline, the others, the facts beside them, each step's loss, each rank's rows, what to do, counts."""
    from torchparity.comparing import summary_lines
    from torchparity.comparing.step_lines import step_lines

    yield comparison.headline()
    yield from (f"Also: {sentence}" for sentence in comparison.other_findings()[:_MOST_OTHERS])
    yield from (f"Note: {remark}" for remark in comparison.verdict.remarks)
    yield from step_lines(comparison.parts)
    if len({part.rank for part in comparison.parts}) > 1:
        yield from summary_lines(comparison.rank_summaries)
    yield f"Next: {comparison.advice()}"
    yield _summary(comparison)


def file_lines(files: Sequence[Path]) -> Iterator[str]:
    """Yield the files that were written; of many ranks the first, and how many more there are."""
    yield from (f"  {path}" for path in files[:_MOST_FILES])
    if len(files) > _MOST_FILES:
        yield f"  and {len(files) - _MOST_FILES} more in {files[-1].parent}"


def _summary(comparison: Comparison) -> str:
    counts = comparison.counts()
    words = {
        "name": "paired by name",
        "realigned": "re-aligned",
        "renamed": "renamed",
        "fuzzy": "paired fuzzily",
        "candidate only": "in the candidate alone",
        "baseline only": "in the baseline alone",
    }
    said = ", ".join(f"{counts[key]} {text}" for key, text in words.items() if counts[key])
    records = counted(sum(counts.values()), "record")
    return f"{records}: {said or 'nothing to pair'}; {_rows(comparison)}."


def _rows(comparison: Comparison) -> str:
    """Return how many rows were compared, and by what each."""
    by = comparison.rows_compared()
    rows = f"{counted(by.total(), 'row')} compared"
    each = [f"{by[measure]} by {measure}" for measure in ("values", "statistics", "checksums", "shapes") if by[measure]]
    each += [counted(by["arguments"], "argument")] if by["arguments"] else []
    if len(each) == 1 and not by["arguments"]:
        return f"{rows} {each[0].partition(' ')[2]}"
    return f"{rows}: {', '.join(each)}" if each else rows
