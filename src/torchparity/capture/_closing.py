"""The line at the end of a recording: where it is, how much, what is missing, and what to type next."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from torchparity.naming import counted, readable_bytes


def closing_line(
    path: Path,
    *,
    records: int,
    steps: int,
    size: int,
    left_out: Sequence[str] = (),
    never_seen: Sequence[str] = (),
    remarks: Sequence[str] = (),
    structure: Path | None = None,
) -> str:
    """Return the whole of it as one line; `structure` is where calls and nothing else of them were written."""
    what = counted(records, "record") if structure is None else f"the structure of {counted(records, 'call')}"
    made = f"recorded {what} in {counted(steps, 'step')} at {path} ({readable_bytes(size)})"
    parts = [made if steps else f"recorded nothing at {path}", *remarks]
    if left_out:
        parts.append(f"incomplete: {' '.join(left_out)}")
    if never_seen:
        parts.append(f"never seen: {', '.join(never_seen)}")
    if steps:
        see = "torchparity compare" if structure is None else "python -m json.tool"
        parts.append(f"next: {see} {shlex.quote(str(structure or path))}{'' if structure else ' BASELINE'}")
    return f"torchparity: {'; '.join(' '.join(part.split()) for part in parts)}"


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
