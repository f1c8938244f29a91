"""`torchparity run`: what is asked of it wrongly, and what of the script passes through."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from torchparity import cli, open_run
from torchparity.cli import run
from torchparity.config import RecordingLevel, RecordingTask

PLAIN_LOOP = Path(__file__).parent / "scripts" / "plain_loop.py"
HOW_IT_WAS_RUN = """
import sys, __main__
print(sys.argv, sys.path[0], __name__, __file__, __package__, __spec__ and __spec__.name, sys.stdout.errors)
print(__main__ is sys.modules["__main__"], "torch" in sys.modules, "numpy" in sys.modules)
"""
FAILING = """
import logging, sys
import torch
logging.basicConfig(stream=sys.stdout, level=logging.DEBUG)

class Model(torch.nn.Module):
    calls = 0
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
    def forward(self, x):
        self.calls += 1
        if self.calls == 3:
            raise ValueError("not a third time")
        return self.layer(x)

model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    print("step")
    model(torch.ones(2)).sum().backward()
    optimizer.step()
"""
FUNCTIONAL = """
import torch
weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(2):
    (weight * 2).sum().backward()
    optimizer.step()
"""


def python(*words, folder):
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


def recorded(*words, folder):
    return python("-m", "torchparity", "run", *words, folder=folder)


def written(folder, text, name="script.py"):
    (folder / name).write_text(text)
    return name


def own_frames(traceback):
    """Return the frames of a script; those of torch are others where a module has hooks."""
    lines = traceback.splitlines()
    return [line for line in lines if line.startswith(("  File ", "ValueError")) and "site-packages" not in line]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere.py"], "there is no script nowhere.py; name the file to run, or a module with -m."),
        (["."], ". is a folder; name the script to run, or a module with -m."),
        (["-m", "no.such"], "there is no module no.such that could be run; -m takes a module as `python -m` does."),
        ([], "run needs a script: torchparity run [options] train.py, or -m module."),
        (["--stepz", "1", "a.py"], "run has no option '--stepz'. Did you mean '--steps'?"),
        (["--stop-after", "a.py"], "--stop-after ends the script after the last step of --steps; say which, "),
        (["--steps", "2-1", str(PLAIN_LOOP)], "torchparity run: field 'step' is ['2-1']; it must be a list of numbers"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(capsys, monkeypatch, words, sentence):
    monkeypatch.setattr(sys, "path", list(sys.path))

    assert cli.main(["run", *words]) == 2

    said = capsys.readouterr().err
    assert said.startswith(f"torchparity: {sentence}")
    assert said.count("\n") == 1


def test_tasks_and_levels_are_those_of_the_settings():
    assert get_args(RecordingTask) == run.TASKS
    assert {*run.LEVELS, "debug"} == set(get_args(RecordingLevel))


def test_a_run_that_is_there_is_refused_before_the_script_runs(linear_run, tmp_path):
    script = written(tmp_path, "print('began')")

    done = recorded("-o", linear_run, script, folder=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"torchparity: {linear_run} already holds a run;")


@pytest.mark.parametrize("start", [["script.py"], ["./script.py"], ["-m", "script"], ["-m", "package"]])
def test_a_script_runs_as_python_runs_it(tmp_path, start):
    written(tmp_path, HOW_IT_WAS_RUN)
    (tmp_path / "package").mkdir()
    written(tmp_path, "", "package/__init__.py")
    written(tmp_path, HOW_IT_WAS_RUN, "package/__main__.py")
    words = [*start, "--steps", "3", "-o", "--", "--help"]

    bare, ours = python(*words, folder=tmp_path), recorded(*words, folder=tmp_path)

    assert bare.returncode == 0, bare.stderr
    assert ours.stdout == bare.stdout
    assert ours.stderr == "torchparity: nothing was recorded: the script never imported torch.\n"
    assert ours.returncode == 2


@pytest.mark.parametrize(
    "code", ["raise SystemExit(7)", "raise SystemExit('a reason')", "1 / 0", "def f(:", "raise KeyError from OSError()"]
)
def test_the_end_of_a_script_is_its_own(tmp_path, code):
    script = written(tmp_path, f"print('said')\n{code}\n")

    bare, ours = python(script, folder=tmp_path), recorded(script, folder=tmp_path)

    assert bare.returncode
    assert (ours.returncode, ours.stdout) == (bare.returncode, bare.stdout)
    assert ours.stderr.startswith(bare.stderr)


def test_a_script_that_fails_fails_as_before_and_what_was_recorded_is_kept(tmp_path):
    script = written(tmp_path, FAILING)

    bare, ours = python(script, folder=tmp_path), recorded("-o", "run", script, folder=tmp_path)

    assert bare.stderr.endswith("ValueError: not a third time\n")
    assert (ours.returncode, ours.stdout) == (1, bare.stdout)
    assert own_frames(ours.stderr) == own_frames(bare.stderr)
    assert "step 2 was cut off by ValueError" in ours.stderr
    parts = {part.step: part for part in open_run(tmp_path / "run").parts}
    assert "Module.layer.Linear.backward.0" in parts[1].records


def test_only_the_wanted_steps_are_recorded_and_the_script_runs_on(tmp_path):
    bare = python(PLAIN_LOOP, 5, folder=tmp_path)

    ours = recorded("--steps", "1,3-3", "--level", "L0", "--model", "Linear", PLAIN_LOOP, 5, folder=tmp_path)

    assert (ours.returncode, ours.stdout) == (0, bare.stdout)
    parts = open_run(tmp_path / "parity_run").parts
    assert [part.step for part in parts] == [1, 3]
    forward = [record for part in parts for record in part.records if ".forward" in record]
    assert forward == ["Module.Linear.forward.0"] * 2


def test_the_script_is_ended_after_the_last_wanted_step_where_that_is_asked_for(tmp_path):
    ours = recorded("--steps", "0-1", "--stop-after", "--task", "tensor", "-o", "run", PLAIN_LOOP, 9, folder=tmp_path)

    assert ours.returncode == 0
    assert ours.stdout.count("loss") == 1  # of step 0: the second is printed after the step
    assert ours.stderr.splitlines()[-1] == "torchparity: the script was ended after step 1, as --stop-after asks."
    assert [part.step for part in open_run(tmp_path / "run").parts] == [0, 1]


def test_a_script_that_never_steps_is_told(tmp_path):
    ours = recorded(written(tmp_path, "import torch\nprint(torch.ones(2).sum())"), folder=tmp_path)

    assert (ours.returncode, ours.stdout) == (2, "tensor(2.)\n")
    assert ours.stderr.startswith("torchparity: nothing was recorded: no step came, ")
    assert ours.stderr.count("\n") == 1


def test_a_script_that_asks_for_torch_before_it_imports_it(tmp_path):
    """As transformers does."""
    script = "import importlib.util\nassert importlib.util.find_spec('torch')\nx: int = 1\nprint(__annotations__)\n"
    done = recorded("--level", "L1", "-o", "run", written(tmp_path, script + FUNCTIONAL), folder=tmp_path)

    assert done.returncode == 0 and done.stdout == f"{{'x': {int}}}\n", done.stderr
    assert list(open_run(tmp_path / "run").steps) == [0, 1]


def test_a_script_without_modules_is_recorded_by_its_functions_alone(tmp_path):
    script = written(tmp_path, FUNCTIONAL)

    with_modules, functions = (
        recorded("--level", level, "-o", level, script, folder=tmp_path) for level in ("mix", "L1")
    )

    assert with_modules.returncode == 2
    assert "no model was found for level mix" in with_modules.stderr
    assert "use --level L1" in with_modules.stderr
    assert functions.returncode == 0, functions.stderr
    first, second = open_run(tmp_path / "L1").parts[:2]
    assert "Tensor.mul.0.forward" in first.records
    assert "Tensor.mul.0.backward" in second.records


def test_a_model_that_is_not_there_is_told_by_the_name_that_was_given(tmp_path):
    ours = recorded("--model", "network", PLAIN_LOOP, 1, folder=tmp_path)

    assert ours.returncode == 2
    assert "the script has no module 'network' that is called" in ours.stderr
