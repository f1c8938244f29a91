"""The line at the end of a recording: where it is, how much, what is missing, and what to type next."""

from __future__ import annotations

import json
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
    is_structure: bool = False,
) -> str:
    """Return the whole of it as one line; `is_structure`: calls and nothing else of them were written."""
    what = f"the structure of {counted(records, 'call')}" if is_structure else counted(records, "record")
    made = f"recorded {what} in {counted(steps, 'step')} at {path} ({readable_bytes(size)})"
    said = [*remarks]
    if left_out:
        said.append(f"incomplete: {' '.join(left_out)}".removesuffix("."))
    if never_seen:
        said.append(f"never seen: {', '.join(never_seen)}")
    parts = [made if steps else f"recorded nothing at {path}", *(" ".join(part.split()) for part in said)]
    if steps:
        quoted = shlex.quote(str(path))
        parts.append(f"next: torchparity {f'show {quoted} --list' if is_structure else f'compare {quoted} BASELINE'}")
    return f"torchparity: {'; '.join(parts)}"


def size_of(folders: Sequence[Path]) -> int:
    """Return the bytes of all files below some folders."""
    return sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())


def unwritten(folders: Sequence[Path]) -> list[str]:
    """Return the sentences about records that the writer had to leave out, from the first line of each dump.json."""
    found: list[str] = []
    for file in (folder / name for folder in folders for name in ("dump.json", "debug.json")):
        try:
            with file.open("rb") as lines:
                head = json.loads(lines.readline().rpartition(b', "data": {')[0] + b"}")
        except (OSError, ValueError):
            continue  # a step of which there is only a journal
        if file.name == "dump.json" or not (file.parent / "dump.json").is_file():  # both say the same
            found += [line for line in head["torchparity"].get("missing", ()) if "could not be written" in line]
    return found
