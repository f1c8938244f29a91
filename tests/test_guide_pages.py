"""The guide's pages by situation: their scripts and commands run as printed, and print what the pages show."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.support.processes import ROOT
from tests.support.rank_processes import WAIT_FOR_GLOO

GUIDE = ROOT / "docs" / "guide"
SITUATIONS = ["two-devices", "two-versions", "no-baseline", "pre-check", "overflow", "many-ranks"]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = {
    "python": [sys.executable],
    "torchparity": [sys.executable, "-m", "torchparity"],
    "torchrun": [sys.executable, "-m", "torch.distributed.run"],
    "cat": ["cat"],
}


def without_numbers(line):
    """Return a line with # for each number and its sign: they are those of one machine."""
    return re.sub(r"-?\d[\d.]*(?:e[+-]?\d+)?", "#", line)


def sessions(text):
    """Return the commands of a page, each with the lines that it shows."""
    lines = [line for language, block in FENCED.findall(text) if not language for line in block.splitlines()]
    shown: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("$ "):
            shown.append((line.removeprefix("$ "), []))
        else:
            shown[-1][1].append(line)
    return shown


def run(command, folder):
    program, *words = shlex.split(command)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*PROGRAMS[program], *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return [
        without_numbers(line.replace(str(folder), "/home/me")) for line in f"{done.stdout}{done.stderr}".splitlines()
    ]


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_page_runs_as_printed_and_says_what_it_shows(tmp_path, situation):
    text = (GUIDE / f"{situation}.md").read_text(encoding="utf-8")
    for language, code in FENCED.findall(text):
        if language == "python":
            waiting = WAIT_FOR_GLOO if "init_process_group" in code else ""
            (tmp_path / code.splitlines()[0].removeprefix("# ")).write_text(code + waiting)

    assert sessions(text)
    for command, lines in sessions(text):
        said = run(command, tmp_path)
        for line in lines:
            assert line == "..." or without_numbers(line) in said, (command, said)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_page_is_short_and_ends_with_what_to_do_next(situation):
    lines = (GUIDE / f"{situation}.md").read_text(encoding="utf-8").splitlines()

    assert len(lines) <= 50
    assert any(line.startswith("**Next.**") for line in lines[-8:])


def test_every_page_of_the_guide_is_linked_and_tested():
    index = (GUIDE / "index.md").read_text(encoding="utf-8")

    assert {page.stem for page in GUIDE.glob("*.md")} == {"index", *SITUATIONS}
    assert all(f"]({situation}.md)" in index for situation in SITUATIONS)
