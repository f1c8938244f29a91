"""The line that ends a recording: what was recorded, where, what was not, and what to type next."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys

import pytest
import torch

from tests.support.models import linear_and_relu
from tests.support.processes import run_python
from torchparity import open_run
from torchparity.recording import capture


def test_a_scope_that_turns_out_to_be_reversed_is_told(tmp_path, capsys):
    with capture(tmp_path / "reversed", scope=["Torch.sin.0.forward", "Torch.exp.0.forward"]):
        torch.sin(torch.exp(torch.ones(1)))
    line = capsys.readouterr().out
    assert "Torch.exp.0.forward came before Torch.sin.0.forward" in line and "swap them" in line

    with capture(tmp_path / "right", scope=["Torch.exp.0.forward", "Torch.sin.0.forward"]) as recording:
        torch.sin(torch.exp(torch.ones(1)))
        recording.step()
        torch.sin(torch.exp(torch.ones(1)))
    assert "came before" not in capsys.readouterr().out


def test_what_was_asked_for_and_never_seen_is_told_with_the_nearest(tmp_path, capsys):
    with capture(tmp_path, list=["Torch.exp.3.forward", "sin"], tensor_list=["tanh"]):
        torch.exp(torch.ones(1))
        torch.sin(torch.ones(1))

    line = capsys.readouterr().out
    assert "never seen: Torch.exp.3.forward (Did you mean 'Torch.exp.0.forward'?), tanh;" in line


def test_the_closing_line_says_where_how_much_and_what_next(tmp_path, capsys):
    path = tmp_path / "my run"
    with capture(path, task="tensor") as recording:
        torch.exp(torch.ones(1000))
        recording.step()
        torch.exp(torch.ones(1000))

    (line,) = capsys.readouterr().out.splitlines()
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    assert line.startswith(f"torchparity: recorded 4 records in 2 steps at {path} ({size / 1024:.1f} KiB); ")
    assert line.endswith(f"; next: torchparity compare '{path}' BASELINE")
    assert "incomplete" not in line


def test_the_closing_line_of_a_structure_says_what_it_is_and_how_to_see_it(tmp_path, capsys):
    net, path = linear_and_relu(), tmp_path / "my run"
    with capture(path, model=net, task="structure"):
        net(torch.ones(1, 2)).sum().backward()

    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"torchparity: recorded the structure of 7 calls in 1 step at {path} (")
    command = line.partition("; next: ")[2]
    assert command == f"torchparity show '{path}' --list"
    shown = subprocess.run([sys.executable, "-m", *shlex.split(command)], capture_output=True, text=True, check=True)
    assert "Functional.relu.0.forward" in shown.stdout.splitlines()


def test_a_recording_of_nothing_says_so(tmp_path, capsys):
    with capture(tmp_path):
        pass

    assert capsys.readouterr().out == f"torchparity: recorded nothing at {tmp_path}\n"


class FullTerminal(io.StringIO):
    def write(self, text):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "terminal",
    [
        pytest.param(lambda: io.TextIOWrapper(io.BytesIO(), encoding="ascii"), id="letters-it-does-not-have"),
        pytest.param(FullTerminal, id="no-room"),
    ],
)
def test_a_terminal_that_refuses_the_closing_line_stops_nobody(tmp_path, terminal, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal())
    with capture(tmp_path / "Läufe"):
        torch.ones(2).exp()

    assert open_run(tmp_path / "Läufe").part().records


def test_a_forked_child_that_ends_says_nothing(tmp_path):
    code = (
        "import multiprocessing, os, sys, torch; from torchparity.recording import capture\n"
        "with capture(sys.argv[1]):\n"
        "    torch.ones(3).exp()\n"
        "    child = multiprocessing.get_context('fork').Process(target=torch.ones, args=(1,))\n"
        "    child.start(); child.join()\n"
        "    if os.fork() == 0: sys.exit(0)\n"
        "    os.wait()\n"
    )
    done = run_python(code, tmp_path)

    (line,) = done.stdout.splitlines()
    assert "recorded 2 records in 1 step" in line, done.stderr


def test_steps_that_never_came_are_named(tmp_path, capsys):
    with capture(tmp_path, level="L1", step=[7, 8]) as recording:
        recording.step()
        recording.step()

    assert "steps 7, 8 were asked for, and steps 0 to 1 came" in capsys.readouterr().out


def test_a_part_of_a_name_that_never_came_up_has_its_nearest(tmp_path, capsys):
    with capture(tmp_path, level="L1", list=["reluu"]):
        torch.relu(torch.ones(1))

    assert "never seen: reluu (Did you mean 'relu'?)" in capsys.readouterr().out
