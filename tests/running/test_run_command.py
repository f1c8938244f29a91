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
from torchparity.storage.step_checksums import read_checksums

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
        (["--steps", "2-1", str(PLAIN_LOOP)], "--steps is '2-1', which ends before it begins; did you mean 1-2?"),
        (
            ["--steps", "one", str(PLAIN_LOOP)],
            "--steps is 'one'; it takes numbers from 0 to 1000000 and spans, such as",
        ),
        (["--steps", "1,", str(PLAIN_LOOP)], "--steps is '1,'; it takes numbers from 0 to 1000000 and spans, such as"),
        (["-o", "a/rank0", str(PLAIN_LOOP)], "a/rank0 is how a run names the folder of a step; choose another name"),
        (["-o", "step0", str(PLAIN_LOOP)], "step0 is how a run names the folder of a step; choose another name"),
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


def test_a_run_that_is_there_is_refused_before_the_script_runs(linear_run, scripts):
    done = scripts.recorded("-o", linear_run, scripts.write("print('began')"))

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"torchparity: {linear_run} already holds a run;")


@pytest.mark.parametrize("inside", ["step0/rank0/deeper", "step0/other"])
def test_a_folder_inside_of_a_run_is_refused_before_the_script_runs(linear_run, scripts, inside):
    before = sorted(linear_run.rglob("*"))

    done = scripts.recorded("-o", linear_run / inside, scripts.write("print('began')"))

    assert (done.code, done.out) == (2, "")
    assert f"is inside of the run {linear_run}; choose a folder outside of it" in done.err
    assert sorted(linear_run.rglob("*")) == before


@pytest.mark.parametrize("options", [(), ("--overwrite",), ("--checksum-every", "1"), ("--task", "free_benchmark")])
@pytest.mark.parametrize("below", ["", "deep/run"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_script_runs(scripts, below, options):
    output = scripts.folder / "file" / below
    (scripts.folder / "file").write_text("kept")

    done = scripts.recorded("-o", output, *options, scripts.write("print('began')"))

    assert (done.code, done.out) == (2, "")
    assert done.err == f"torchparity: cannot write {output}: not a directory.\n"
    assert (scripts.folder / "file").read_text() == "kept"


def test_a_fix_needs_no_folder(scripts):
    (scripts.folder / "file").write_text("")
    fixing = ("--task", "free_benchmark", "--handler-type", "fix", "--raise-float32", "--list", "mul")

    done = scripts.recorded("-o", "file", *fixing, scripts.write(FUNCTIONAL))

    assert done.code == 0, done.err


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


def test_the_failure_of_a_script_before_it_imports_torch_is_all_that_is_said(tmp_path):
    script = written(tmp_path, "raise SystemExit('no data')")

    bare, ours = python(script, folder=tmp_path), recorded(script, folder=tmp_path)

    assert (ours.returncode, ours.stderr) == (bare.returncode, bare.stderr) == (1, "no data\n")


def test_a_script_that_fails_fails_as_before_and_what_was_recorded_is_kept(tmp_path):
    script = written(tmp_path, FAILING)

    bare, ours = python(script, folder=tmp_path), recorded("-o", "run", script, folder=tmp_path)

    assert bare.stderr.endswith("ValueError: not a third time\n")
    assert (ours.returncode, ours.stdout) == (1, bare.stdout)
    assert own_frames(ours.stderr) == own_frames(bare.stderr)
    assert "step 2 was cut off by ValueError" in ours.stderr
    parts = {part.step: part for part in open_run(tmp_path / "run").parts}
    assert "Module.layer.Linear.backward.0" in parts[1].records


def test_only_the_wanted_steps_are_recorded_and_the_script_runs_on(scripts):
    bare = scripts.bare(PLAIN_LOOP, 5)

    ours = scripts.recorded("--steps", "1,3-3", "--level", "L0", "--model", "Linear", PLAIN_LOOP, 5)

    assert (ours.code, ours.out) == (0, bare.out)
    parts = open_run(scripts.folder / "parity_run").parts
    assert [part.step for part in parts] == [1, 3]
    forward = [record for part in parts for record in part.records if ".forward" in record]
    assert forward == ["Module.Linear.forward.0"] * 2


def test_the_script_is_ended_after_the_last_wanted_step_where_that_is_asked_for(scripts):
    ours = scripts.recorded("--steps", "0-1", "--stop-after", "--task", "tensor", "-o", "run", PLAIN_LOOP, 9)

    assert ours.code == 0
    assert ours.out.count("loss") == 1  # of step 0: the second is printed after the step
    assert ours.err.splitlines()[-1] == "torchparity: the script was ended after step 1, as --stop-after asks."
    assert [part.step for part in open_run(scripts.folder / "run").parts] == [0, 1]


@pytest.mark.parametrize("options", [[], ["--checksum-every", "1"], ["--stop-after"]])
def test_steps_that_never_come_are_told(scripts, options):
    ours = scripts.recorded("--steps", "9", *options, PLAIN_LOOP, 2)

    assert ours.code == 2
    assert "no step was recorded: --steps is 9, and the script has steps 0 to 1; ask for one of these." in ours.err
    assert ("kept checksums of 2 steps" in ours.err) == ("--checksum-every" in options)


def test_a_script_that_never_steps_is_told(scripts):
    ours = scripts.recorded(scripts.write("import torch\nprint(torch.ones(2).sum())"))

    assert (ours.code, ours.out) == (2, "tensor(2.)\n")
    assert ours.err.startswith("torchparity: nothing was recorded: no step came, ")
    assert ours.err.count("\n") == 1


def test_a_script_that_asks_for_torch_before_it_imports_it(tmp_path):
    """As transformers does."""
    script = "import importlib.util\nassert importlib.util.find_spec('torch')\nx: int = 1\nprint(__annotations__)\n"
    done = recorded("--level", "L1", "-o", "run", written(tmp_path, script + FUNCTIONAL), folder=tmp_path)

    assert done.returncode == 0 and done.stdout == f"{{'x': {int}}}\n", done.stderr
    assert list(open_run(tmp_path / "run").steps) == [0, 1]


def test_a_script_without_modules_is_recorded_by_its_functions_alone(scripts):
    script = scripts.write(FUNCTIONAL)

    with_modules, functions = (scripts.recorded("--level", level, "-o", level, script) for level in ("mix", "L1"))

    assert with_modules.code == 0, with_modules.err
    assert functions.code == 0, functions.err
    first, second = open_run(scripts.folder / "L1").parts[:2]
    assert "Tensor.mul.0.forward" in first.records
    assert "Tensor.mul.0.backward" in second.records


def test_a_model_that_is_not_there_is_told_by_the_name_that_was_given(scripts):
    ours = scripts.recorded("--model", "network", PLAIN_LOOP, 1)

    assert ours.code == 2
    assert ours.err.startswith(
        "torchparity: the script calls no module 'network'; it calls Sequential, Linear; --model takes a variable"
    )


def test_what_the_script_is_told_to_do_is_kept_with_the_name_of_the_model(scripts):
    assert scripts.recorded("--checksum-every", 1, "--model", "Linear", "-o", "run", PLAIN_LOOP, 1).code == 0

    assert read_checksums(scripts.folder / "run", 0).command == ["--model", "Linear", str(PLAIN_LOOP), "1"]
