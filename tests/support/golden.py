"""Where the runs and tables recorded with msprobe 8.2.0 are: `../shared/golden`, or what TORCHPARITY_GOLDEN names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.processes import ROOT

GOLDEN = Path(os.environ.get("TORCHPARITY_GOLDEN", ROOT.parent / "shared" / "golden"))
IS_HERE = GOLDEN.is_dir()
REASON = "the recorded msprobe runs are not here; TORCHPARITY_GOLDEN says where they are"
needs_golden = pytest.mark.skipif(not IS_HERE, reason=REASON)
RANKS = GOLDEN.parent / "golden-ranks.tar.xz"
needs_ranks = pytest.mark.skipif(not RANKS.is_file(), reason="the recorded runs of four ranks are not here")


def table_names(*, without: str = "no such part", ending: str = "") -> list[str]:
    """Return the names of the recorded tables.

    Where they are not here, one name stands for all of them: its test is skipped with a reason.
    """
    names = sorted(file.stem for file in (GOLDEN / "expected").glob("*.csv")) or [f"not-here{ending}"]
    return [name for name in names if without not in name and name.endswith(ending)]
