"""The contract of a table format, one file of this folder each; `report/__init__.py` has it in words."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from torchparity.records import Table


class Written(msgspec.Struct, frozen=True):
    """The files that a table became, and sentences on what a reader of them should know."""

    files: list[Path]
    notes: list[str]


class TableFormat(Protocol):
    """The type of `PLUGIN` in each file of `report/formats/`."""

    suffix: str

    def write(self, table: Table, path: Path) -> Written:
        """Write the table as one file; raise `RunWriteError` where the disk refuses."""
