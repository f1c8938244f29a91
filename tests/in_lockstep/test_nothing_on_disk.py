"""No file: whatever lockstep opens, it opens to read, and no folder has more in it than before."""

from __future__ import annotations

import json
import os

import pytest

from tests.support.processes import ROOT, run_python

PROGRAM = """
import json, os, sys
from pathlib import Path
sys.dont_write_bytecode = True
import torch
import torchparity
from tests.support.twins import HalvesGradient, twins
from torchparity.kernels import pairs  # compiled code is kept between processes, by Numba
os.chdir(sys.argv[1])
candidate, baseline, tokens = twins()
candidate.blocks[1].identity = HalvesGradient
torchparity.lockstep(candidate, baseline, tokens, backward=True, task=sys.argv[2])  # compiles on a new machine
opened = []
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
def watch(event, arguments):
    if event == "open" and arguments[0] != os.devnull and (arguments[2] or 0) & WRITES:
        opened.append(str(arguments[0]))
    elif event in ("os.mkdir", "os.rename", "os.link", "os.symlink", "shutil.copyfile", "tempfile.mkstemp",
                   "tempfile.mkdtemp", "sqlite3.connect"):
        opened.append(f"{event} {arguments[0]}")
sys.addaudithook(watch)
result = torchparity.lockstep(candidate, baseline, tokens, backward=True, task=sys.argv[2])
try:
    (Path(sys.argv[1]).parent / "proof").write_text("the hook sees what is written")
finally:
    print(json.dumps({"headline": result.headline, "opened": opened}))
"""


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_planted_fault_is_found_and_no_file_is_written(tmp_path, task):
    folders = {name: tmp_path / name for name in ("work", "temporary", "home")}
    for folder in folders.values():
        folder.mkdir()
    surroundings = {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "TMPDIR": str(folders["temporary"]),
        "HOME": str(folders["home"]),
    }

    done = run_python(PROGRAM, folders["work"], task, environment=surroundings)

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert "Functional.gelu.1.backward" in answer["headline"]
    assert answer["opened"] == [str(tmp_path / "proof")]
    assert [path for folder in folders.values() for path in folder.rglob("*")] == []
