"""torchparity show, as a person and as a program sees it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from tests.conftest import write_linear_run
from torchparity.cli import main

RECORD = "Functional.linear.0.forward"


def run(*arguments, check=0):
    done = subprocess.run([sys.executable, "-m", "torchparity", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == check, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_a_run_at_a_glance(tmp_path):
    path = write_linear_run(tmp_path / "run", steps=3)

    text = run("show", path).stdout

    assert "steps        0-2" in text
    assert "task, level  tensor, L1" in text
    assert "slowest records" in text and "250.00 ms" in text
    assert "largest records" in text and "188 B" in text
    assert "\x1b" not in text  # plain when piped


def test_the_glance_as_json(tmp_path):
    path = write_linear_run(tmp_path / "run", steps=2)

    summary = json.loads(run("show", path, "--json").stdout)

    assert summary["steps"] == [0, 1]
    assert summary["parts"][0]["records"] == {"forward": 1}
    assert summary["parts"][0]["tensor_bytes"] == 4 * (12 + 15 + 20)
    assert summary["parts"][0]["largest"] == [{"name": RECORD, "amount": 188.0}]


def test_step_and_rank_narrow_the_glance(tmp_path):
    for rank in (0, 1):
        write_linear_run(tmp_path / "run", steps=2, rank=rank)

    summary = json.loads(run("show", tmp_path / "run", "--json", "--step", 1, "--rank", 1).stdout)

    assert [(part["step"], part["rank"]) for part in summary["parts"]] == [(1, 1)]
    assert "has no step '9'" in run("show", tmp_path / "run", "--step", 9, check=2).stderr
    assert "has no rank '9'" in run("show", tmp_path / "run", "--rank", 9, check=2).stderr


def test_one_record(linear_run):
    text = run("show", linear_run, RECORD).stdout

    assert "inside  Module.fc.Linear.forward.0" in text
    assert "File net.py, line 7, in forward, return linear(x, w)" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith(("input", "output"))] == [
        "input.0",
        "input.1",
        "input.2",
        "output.0",
    ]


def test_one_record_as_json(linear_run):
    shown = json.loads(run("show", linear_run, RECORD, "--json").stdout)

    assert shown["parent"] == "Module.fc.Linear.forward.0"
    assert shown["record"]["input_args"][2] == {"type": "int", "value": 3}


def test_a_record_is_found_by_its_old_spelling(linear_run):
    assert RECORD in run("show", linear_run, "Functional_linear_0_forward").stdout


def test_one_tensor(linear_run):
    text = run("show", linear_run, RECORD, "--tensor", "output.0").stdout

    assert "torch.float32 [4, 5]" in text
    assert "histogram" in text and "max at" in text and "values" in text


def test_one_tensor_as_json(golden):
    path = golden / "runs" / "conv-tensor-L1-nan"
    records = json.loads(run("show", path, "--list", "--json").stdout)
    shown = json.loads(run("show", path, records[0], "--tensor", "input.0", "--json").stdout)

    assert shown["name"] == f"{records[0]}.input.0"
    assert set(shown["statistics"]) >= {"max", "finite_max", "nan_count"}


def test_listing_names(golden):
    path = golden / "runs" / "conv-tensor-L1-base"

    every = run("show", path, "--list").stdout.splitlines()
    some = run("show", path, "--list", "conv2d").stdout.splitlines()

    assert some == [name for name in every if "conv2d" in name]
    assert some


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["RUN", "Functional.linaer.0.forward"], "Did you mean 'Functional.linear.0.forward'"),
        (["RUN", RECORD, "--tensor", "input.9"], "has no tensor 'input.9'"),
        (["RUN", "--tensor", "input.0"], "--tensor needs the record"),
        (["RUN", RECORD, "--list", "x"], "not both"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(linear_run, arguments, said):
    done = run("show", *[linear_run if word == "RUN" else word for word in arguments], check=2)

    assert done.stderr.startswith("torchparity: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert said in done.stderr


def test_a_tensor_that_was_not_kept_is_said(golden):
    path = golden / "runs" / "conv-statistics-L1-base"
    name = run("show", path, "--list").stdout.splitlines()[0]

    assert "task statistics" in run("show", path, name, "--tensor", "input.0", check=2).stderr


def test_damage_is_said_and_the_rest_shown(tmp_path):
    path = write_linear_run(tmp_path / "run", steps=2)
    (path / "step0" / "rank0" / "dump.json").write_text("{")

    done = run("show", path, check=2)

    assert "unreadable" in done.stdout and "complete" in done.stdout
    assert "step0/rank0/dump.json" in done.stderr


def test_a_terminal_gets_colour_and_fits_its_width(linear_run):
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "torchparity", "show", str(linear_run)],
        stdout=terminal,
        env={**os.environ, "COLUMNS": "100", "TERM": "xterm-256color"},
    )
    process.wait()
    os.close(terminal)
    text = os.read(controller, 1 << 16).decode()
    os.close(controller)

    assert "\x1b[1m" in text


def test_a_reader_that_stops_reading_is_no_error(linear_run):
    done = subprocess.run(
        f"{sys.executable} -m torchparity show {linear_run} --json | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
    )

    assert done.stderr == ""


def test_a_fault_of_ours_exits_with_3(linear_run, monkeypatch, capsys):
    def broken(_):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("torchparity.cli.show.run", broken)

    assert main(["show", str(linear_run)]) == 3
    assert "internal error" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["show", "--help"], ["convert", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    code = (
        "import sys; from torchparity.cli import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit: pass\n"
        "print([name for name in ('torch', 'numpy', 'msgspec', 'safetensors') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def test_no_command_is_a_usage_error():
    assert "COMMAND" in run(check=2).stderr
