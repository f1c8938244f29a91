"""Python programs of their own, run from the root of the repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_python(
    code: str, *arguments: object, environment: dict[str, str] | None = None, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program given as text; its output is kept, its exit status is for the caller to check."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | environment if environment else None,
        timeout=timeout,
    )
