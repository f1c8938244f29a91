"""torchparity show, as a person and as a program sees it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys

import pytest
import torch

from tests.support.runs import write_linear_run
from torchparity.cli import main
from torchparity.recording import capture

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


def test_a_structure_shows_its_calls(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    with capture(tmp_path, model=model, task="structure"):
        model(torch.ones(1, 2))

    (part,) = json.loads(run("show", tmp_path, "--json").stdout)["parts"]
    listed = run("show", tmp_path, "--list", "relu").stdout.split()
    text = run("show", tmp_path, "Functional.relu.0.forward").stdout

    assert part["records"] == {"forward": 6} and part["items"] == 0
    assert listed == ["Functional.relu.0.forward", "Module.1.ReLU.forward.0"]
    assert "inside  Module.1.ReLU.forward.0" in text and "test_show.py" in text


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
    assert "  File net.py, line 7, in forward\n      return linear(x, w)\n" in text
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


@pytest.mark.parametrize("shape", [(5_000,), (300, 300), (20, 300, 300), (4, 8, 64, 64), (4, 4, 4, 8, 8)])
def test_a_large_tensor_is_shown_by_its_corners(tmp_path, shape):
    with capture(tmp_path, task="tensor"):
        torch.ones(shape).exp()

    text = run("show", tmp_path, "Tensor.exp.0.forward", "--tensor", "output.0").stdout

    assert len(text.splitlines()) < 90 and "..." in text


def test_one_tensor_as_json(golden):
    path = golden / "runs" / "conv-tensor-L1-nan"
    records = json.loads(run("show", path, "--list", "--json").stdout)[0]["records"]
    shown = json.loads(run("show", path, records[0], "--tensor", "input.0", "--json").stdout)

    assert shown["name"] == f"{records[0]}.input.0"
    assert set(shown["statistics"]) >= {"max", "finite_max", "nan_count"}


def test_listing_names(golden):
    path = golden / "runs" / "conv-tensor-L1-base"

    every = run("show", path, "--list").stdout.splitlines()
    some = run("show", path, "--list", "CONV2D").stdout.splitlines()

    assert some == [name for name in every if "conv2d" in name]
    assert some
    assert run("show", "--list", path, "conv2d").stdout.splitlines() == some


def test_a_name_that_no_record_has_fails(tmp_path):
    path = write_linear_run(tmp_path / "run", steps=2)

    done = run("show", path, "--list", "zzz", check=2)

    assert done.stdout == ""
    assert done.stderr == "torchparity: no record has 'zzz' in its name; --list without a name lists them all.\n"


def test_a_name_that_no_record_has_is_answered_with_the_nearest(linear_run):
    done = run("show", linear_run, "--list", "linaer", check=2)

    assert done.stderr == "torchparity: no record has 'linaer' in its name. Did you mean 'linear'?\n"


def test_names_of_several_steps_say_which(tmp_path):
    path = write_linear_run(tmp_path / "run", steps=2)

    assert run("show", path, "--list").stdout.splitlines() == [f"step0 rank0 {RECORD}", f"step1 rank0 {RECORD}"]
    assert run("show", path, "--list", "--step", 1).stdout.splitlines() == [RECORD]


def test_records_with_nan_are_listed(golden):
    names = run("show", golden / "runs" / "att-statistics-mix-nan", "--nonfinite").stdout.splitlines()
    summary = json.loads(run("show", golden / "runs" / "att-statistics-mix-nan", "--json").stdout)

    assert len(names) == summary["parts"][0]["nonfinite_records"] > 10


def test_options_may_stand_before_the_name(linear_run):
    assert RECORD in run("show", linear_run, "--step", 0, RECORD).stdout


def test_verify_reads_every_tensor(linear_run):
    shard = next(linear_run.rglob("*.safetensors"))
    assert "verified" in run("show", linear_run, "--verify").stdout
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)

    assert "complete" in run("show", linear_run).stdout
    assert "damaged" in run("show", linear_run, "--verify", check=2).stdout


def test_missing_tensors_and_a_broken_stack_file_are_noticed_at_a_glance(linear_run):
    next(linear_run.rglob("*.safetensors")).unlink()
    (linear_run / "step0" / "rank0" / "stack.json").write_text("{")

    done = run("show", linear_run, check=2)

    assert "damaged" in done.stdout
    assert "data-00000.safetensors does not exist" in done.stderr
    assert "stack.json" in run("show", linear_run, RECORD, check=2).stderr


@pytest.mark.parametrize(
    "record",
    [
        {"input_args": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [10**18] * 64}], "output": []},
        {"input_args": [], "output": [], "seconds": 10**400},
        {"input_args": [{"type": "int", "value": json.loads("[" * 600 + "]" * 600)}], "output": []},
    ],
    ids=["huge-shape", "huge-time", "deep-value"],
)
@pytest.mark.parametrize(
    "options", [[], ["--json"], ["--list"], ["Torch.abs.0.forward"], ["Torch.abs.0.forward", "--json"]]
)
def test_nonsense_in_a_record_is_never_our_fault(linear_run, record, options, capsys):
    file = next(linear_run.rglob("dump.json"))
    document = json.loads(file.read_text())
    document["data"]["Torch.abs.0.forward"] = record
    file.write_text(json.dumps(document))

    assert main(["show", str(linear_run), *options]) in (0, 2)
    assert "internal error" not in capsys.readouterr().err


def test_names_cannot_control_the_terminal(linear_run):
    file = next(linear_run.rglob("dump.json"))
    file.write_text(file.read_text().replace(RECORD, "evil\\u001b]0;title\\u0007\\ud800.0.forward"))

    for options in ([], ["--list"], ["evil"]):
        done = subprocess.run(
            [sys.executable, "-m", "torchparity", "show", str(linear_run), *options], capture_output=True, text=True
        )
        assert done.returncode in (0, 2), done.stderr
        assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["RUN", "Functional.linaer.0.forward"], "Did you mean 'Functional.linear.0.forward'"),
        (["RUN", RECORD, "--tensor", "input.9"], "has no tensor 'input.9'"),
        (["RUN", "--tensor", "input.0"], "--tensor needs the record"),
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

    assert "task 'statistics'" in run("show", path, name, "--tensor", "input.0", check=2).stderr


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
    assert max(len(line) for line in re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()) <= 100


@pytest.mark.parametrize("options", ["", "--json", "--list"])
def test_a_reader_that_stops_reading_is_no_error(linear_run, options):
    command = f"{sys.executable} -m torchparity show {linear_run} {options}"
    done = subprocess.run(["bash", "-c", f"{command} | true; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize("options", ["show RUN", "show RUN --json", "--help"])
def test_a_full_disk_behind_the_output_is_one_sentence(linear_run, options):
    with open("/dev/full", "w") as full:
        words = options.replace("RUN", str(linear_run)).split()
        done = subprocess.run([sys.executable, "-m", "torchparity", *words], stdout=full, stderr=-1, text=True)

    assert done.returncode == 2
    assert done.stderr == "torchparity: cannot write the output: No space left on device.\n"


def test_an_ascii_terminal_shows_what_it_can(linear_run):
    file = next(linear_run.rglob("dump.json"))
    file.write_text(file.read_text().replace(RECORD, "Module.\u5c42.Linear.forward.0"))
    done = subprocess.run(
        [sys.executable, "-m", "torchparity", "show", str(linear_run), "--list"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == b"Module.?.Linear.forward.0\n"


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


def test_options_without_a_command_are_a_usage_error():
    assert "COMMAND" in run("-f", "pytorch", check=2).stderr


def test_a_file_that_is_gone_is_said_once(tmp_path):
    with capture(tmp_path, task="tensor"):
        for number in range(5):
            torch.full((3,), float(number)).exp()
    (shard,) = tmp_path.rglob("*.safetensors")
    shard.unlink()

    lines = [line for line in run("show", tmp_path, check=2).stderr.splitlines() if shard.name in line]

    assert len(lines) == 1 and "Torch.full.0.forward.output.0 and 14 more tensors" in lines[0]


def test_the_environment_is_shown_with_what_other_steps_have_instead(tmp_path):
    with capture(tmp_path) as recording:
        torch.ones(2, 2).exp()
        recording.step()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.ones(2, 2) @ torch.ones(2, 2)

    text = run("show", tmp_path).stdout
    parts = json.loads(run("show", tmp_path, "--json").stdout)["parts"]

    assert f"{torch.__version__}, git" in text
    assert re.search(r"1 +0 +autocast cpu bfloat16\n", text)
    assert [part["environment"]["autocast"] for part in parts] == ["off", "cpu bfloat16"]
