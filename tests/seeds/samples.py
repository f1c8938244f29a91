"""The samples of the five documents, cut out of their text, and processes that run them as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.golden import GOLDEN
from tests.support.processes import ROOT

SEEDS = Path(os.environ.get("TORCHPARITY_SEEDS", GOLDEN.parent / "seeds"))
needs_seeds = pytest.mark.skipif(not SEEDS.is_dir(), reason=f"the documents are not here ({SEEDS})")
SIMULATED = "import torchparity; torchparity.simulate_npu()\n"
_BLOCK = re.compile(r"^[ \t]*```(\w*)[ \t]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)


def blocks(number: int, language: str) -> list[str]:
    """Return the code of one language in a document, without its indentation."""
    (document,) = SEEDS.glob(f"{number:03}_*.txt")
    found = _BLOCK.findall(document.read_text(encoding="utf-8"))
    return [textwrap.dedent(code.expandtabs(4)) for kind, code in found if kind.lower() == language]


def run_sample(code: str, folder: Path, name: str = "sample.py") -> subprocess.CompletedProcess[str]:
    """Run a sample with `torchparity run --seeds` in a folder."""
    (folder / name).write_text(code, encoding="utf-8")
    return run_command([sys.executable, "-m", "torchparity", "run", "--seeds", name], folder)


def run_command(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with this checkout."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
