"""The first command of a newcomer: `make demo`, what README says about it, and `make clean`."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from tests.support.processes import ROOT
from torchparity import open_run

README = (ROOT / "README.md").read_text()
FOLDERS = ("demo_run_cpu", "demo_run_npu", "demo_tables")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Run the demo; return the folder it ran in and the lines it printed."""
    folder = tmp_path_factory.mktemp("demo")
    script = [sys.executable, str(ROOT / "examples" / "demo.py")]
    printed = subprocess.run(script, cwd=folder, capture_output=True, text=True, check=True, timeout=300).stdout
    return folder, printed.splitlines()


def test_the_demo_begins_with_the_answer_and_is_short(demo):
    _, lines = demo

    first_command = next(index for index, line in enumerate(lines) if line.startswith("$ "))
    assert lines[first_command].startswith("$ torchparity compare ")
    assert "First divergence: Functional.layer_norm.3.forward in Module.blocks.1.norm2" in lines[first_command + 1]
    assert "inputs equal, output.0 off by" in lines[first_command + 1]
    assert "simulated NPU" in lines[first_command + 2]
    assert len(lines) < 50


def test_readme_shows_the_headline_of_the_demo(demo):
    assert next(line for line in demo[1] if "First divergence" in line) in README.splitlines()


def test_the_names_readme_lists_are_in_the_demos_run(demo):
    (part,) = re.findall(r"show RUN --list (\w+)", README)

    assert f'names of the records that contain "{part}"' in README
    assert [name for name in open_run(demo[0] / "demo_run_cpu").part(step=0).records if part in name]


def test_make_clean_removes_what_the_demo_wrote(demo):
    recipe = re.search(r"^clean:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()

    assert sorted(folder.name for folder in demo[0].iterdir()) == sorted(FOLDERS)
    assert set(FOLDERS) <= set(recipe)


def test_what_the_demo_says_to_type_next_works(demo):
    folder, lines = demo
    commands = lines[lines.index("More to see:") + 1 :]

    assert len(commands) == 2
    for command in commands:
        done = subprocess.run(shlex.split(command), cwd=folder, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr


def test_make_test_with_another_torch_uses_one_environment_outside_the_project(tmp_path):
    command = ["make", "--no-print-directory", "-n", "test", "TORCH=2.6.0", f"TMPDIR={tmp_path}"]

    recipe = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()

    assert recipe[0] == f"rm -rf {tmp_path}/torchparity-torch-*"
    assert any("torch==2.6.0" in line for line in recipe)
    assert f" {tmp_path}/torchparity-torch-2.6.0/bin/python -m pytest -q " in recipe[-1]
    assert "TORCH" not in (ROOT / ".ci" / "run").read_text()
