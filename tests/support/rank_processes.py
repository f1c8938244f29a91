"""Processes of ranks on gloo: started together, and ended so that gloo cannot abort them.

Gloo's threads let go of the tensors of the last collective after it is over, for which they need the interpreter. Where
that is ending already, the process aborts, with or without a recording (pytorch pull 179291).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.processes import ROOT

WAIT_FOR_GLOO = "\nimport time\ntime.sleep(1)\n"  # behind a program given as text


def run_ranks(module: str, folder: Path, ranks: int) -> None:
    """Run `python -m module FOLDER RANK` for every rank at the same time; raise with what they said if one fails."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, str(folder), str(rank)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(ranks)
    ]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError("\n".join(errors))


def end_rank() -> None:
    """End this process at once, without the interpreter's end."""
    os._exit(0)
