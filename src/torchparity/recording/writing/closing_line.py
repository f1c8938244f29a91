"""The closing line of a recording: its place and size, what is missing, and the command to type next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from torchparity.text import counted, readable_bytes


def closing_line(
    path: Path,
    *,
    records: int,
    steps: int,
    size: int,
    left_out: Sequence[str] = (),
    never_seen: Sequence[str] = (),
    remarks: Sequence[str] = (),
    task: str = "statistics",
) -> str:
    """Return the closing line; what to do next depends on the task, and is proposed only where there are steps."""
    what = f"the structure of {counted(records, 'call')}" if task == "structure" else counted(records, "record")
    recorded = f"recorded {what} in {counted(steps, 'step')} at {path} ({readable_bytes(size)})"
    details = [*remarks]
    if left_out:
        details.append(f"incomplete: {'; '.join(sentence.removesuffix('.') for sentence in left_out)}")
    if never_seen:
        details.append(f"never seen: {', '.join(never_seen)}")
    nothing = (
        f"no overflow to report, nothing is written to {path}"
        if task == "overflow_check"
        else f"recorded nothing at {path}"
    )
    parts = [recorded if steps else nothing, *(" ".join(part.split()) for part in details)]
    if steps:
        quoted = shlex.quote(str(path))
        following = {"structure": f"show {quoted} --list", "overflow_check": f"overflow {quoted}"}
        parts.append(f"next: torchparity {following.get(task, f'compare {quoted} BASELINE')}")
    return f"torchparity: {'; '.join(parts)}"
