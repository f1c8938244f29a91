"""`torchparity run --task free_benchmark`: the task without an edit to the script."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest
from torch.distributed.run import get_args_parser as torchrun_parser

from tests.support.perturbing import rows_in
from tests.support.processes import ROOT
from torchparity import cli
from torchparity.cli.run import add_arguments
from torchparity.config import FreeBenchmarkTask

SCRIPT = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.LayerNorm(4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    result = 100 * model(torch.rand(3, 8))
    torch.sub(result, result.detach() * (1 + 1e-4)).sum().backward()
    optimizer.step()
print("trained")
"""


def run(folder, *options, source=SCRIPT):
    script = folder / "train.py"
    script.write_text(source)
    command = [sys.executable, "-m", "torchparity", "run", *options, "-o", str(folder / "run"), str(script)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)


def test_calls_are_perturbed_in_every_step(tmp_path):
    done = run(tmp_path, "--task", "free_benchmark", "--pert-mode", "bit_noise", "--list", "Torch.sub")

    assert done.returncode == 0, done.stderr
    assert done.stdout == "trained\n"
    assert "perturbed 2 calls with bit_noise; 2 results beyond the thresholds" in done.stderr
    assert [(row["step"], row["api_name"]) for row in rows_in(tmp_path / "run")] == [
        ("0", "Torch.sub.0.forward"),
        ("1", "Torch.sub.0.forward"),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pert-mode", "improve_precision"), "nothing was checked with improve_precision; "),
        (
            ("--list", "laeyr_norm", "--pert-mode", "bit_noise"),
            "; never called in a step: laeyr",
        ),
        (("--handler-type", "fix"), "nothing was replaced by improve_precision; "),
    ],
    ids=["float32", "misspelt", "fix"],
)
def test_a_check_of_nothing_exits_with_2(tmp_path, options, said):
    done = run(tmp_path, "--task", "free_benchmark", *options)

    assert done.stdout == "trained\n"
    assert said in done.stderr
    assert done.returncode == 2


def test_a_name_that_torch_has_not_ends_the_script_before_the_training(tmp_path):
    done = run(tmp_path, "--task", "free_benchmark", "--scope", "Torch.matmull.0.forward")

    assert done.stdout == ""
    assert done.stderr.strip() == (
        "torchparity: free_benchmark.scope: torch has no API for 'Torch.matmull.0.forward'. "
        "Did you mean 'Torch.matmul.0.forward'?"
    )
    assert done.returncode == 2 and not (tmp_path / "run").exists()


def test_a_refused_name_leaves_a_script_alone_that_imports_torch_in_a_thread(tmp_path):
    source = """
import queue, threading

answers = queue.Queue()

def work():
    import torch
    answers.put(float(torch.ones(2).sum()))

threading.Thread(target=work).start()
print(answers.get())
"""
    done = run(tmp_path, "--task", "free_benchmark", "--scope", "Torch.matmull.0.forward", source=source)

    assert done.stdout == "2.0\n"
    assert "torch has no API for 'Torch.matmull.0.forward'" in done.stderr and "Traceback" not in done.stderr
    assert done.returncode == 2


def test_a_table_of_other_columns_is_refused_before_the_script(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "significance.csv").write_text("a,b\n")

    done = run(tmp_path, "--task", "free_benchmark", "--significance", "2")

    assert done.stdout == "" and done.returncode == 2
    assert "significance.csv: the table there has other columns" in done.stderr
    assert run(tmp_path, "--task", "free_benchmark", "--list", "sub").stdout == "trained\n"


def test_a_part_of_a_name_that_is_doubted_is_doubted_before_the_training(tmp_path):
    says_so = "import torch, sys\nprint('trains', file=sys.stderr, flush=True)\n"

    done = run(tmp_path, "--task", "free_benchmark", "--list", "lineer", source=says_so)

    doubt = "free_benchmark.list: no API of torch has 'lineer' in its name. Did you mean 'linear'?"
    assert done.stderr.index(doubt) < done.stderr.index("trains")


@pytest.mark.parametrize(("again", "rows"), [((), 4), (("--overwrite",), 2)])
def test_a_second_training_adds_rows_or_replaces_them(tmp_path, again, rows):
    options = ("--task", "free_benchmark", "--pert-mode", "bit_noise", "--list", "Torch.sub")
    run(tmp_path, *options)
    run(tmp_path, *options, *again)

    assert len(rows_in(tmp_path / "run")) == rows


def test_every_setting_of_the_task_is_an_option():
    parser = ArgumentParser()
    add_arguments(parser)
    options = vars(parser.parse_args([]))
    elsewhere = {"list": "names", "fuzz_device": "pert_mode", "fuzz_level": "level"}  # which stand for them

    for field in FreeBenchmarkTask.__struct_fields__:
        assert elsewhere.get(field, field) in options, field


def test_calls_by_name_number_and_preheat(tmp_path):
    calls = "Torch.sub.0.forward,Torch.rand.0.forward"
    learning = ("--if-preheat", "--preheat-step", "1", "--max-sample", "1", "--max-calls-per-api", "1")

    done = run(tmp_path, "--task", "free_benchmark", "--pert-mode", "bit_noise", "--scope", calls, *learning)

    assert done.returncode == 0, done.stderr
    assert [row["step"] for row in rows_in(tmp_path / "run")] == ["0"]  # in step 1 that is its usual level


def test_no_limit_is_minus_one(tmp_path):
    done = run(tmp_path, "--task", "free_benchmark", "--pert-mode", "bit_noise", "--max-calls-per-api", "-1")

    assert done.returncode == 0, done.stderr
    assert "results beyond the thresholds" in done.stderr


def test_significance_ranks_apis_and_modules(tmp_path):
    done = run(tmp_path, "--task", "free_benchmark", "--significance", "3", "--steps", "1")

    rows = rows_in(tmp_path / "run", "significance.csv")

    assert done.returncode == 0, done.stderr
    assert {row["step"] for row in rows} == {"1"}
    assert {row["name"] for row in rows} >= {"Torch.sub", "Module.0.Linear", "Module.1.LayerNorm"}
    assert "worst: " in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--task", "free_benchmark", "--pert-mode", "bitnoise"], "Did you mean 'bit_noise'?"),
        (["--task", "free_benchmark", "--significance", "many"], "must be a whole number"),
        (
            ["--task", "free_benchmark", "--if-preheat", "--max-sample", "-1"],
            "max_sample' is -1; it must be a whole number from 1",
        ),
        (["--task", "free_benchmark", "--scope", "softmax"], "'softmax' is none: use 'list'"),
        (["--task", "free_benchmark", "--list", ","], "has an empty text, which every name contains"),
        (["--task", "free_benchmark", "--fuzz-stage", "backward"], "'backward' needs 'list'"),
        (["--pert-mode", "bit_noise"], "--pert-mode: only for --task free_benchmark; the task is statistics"),
        (["--task", "free_benchmark", "--preheat-step", "3"], "--preheat-step: only with --if-preheat"),
        (["--task", "free_benchmark", "--significance", "2", "--raise-float32"], "leave 'raise_float32' out"),
        (["--task", "free_benchmark", "--checksum-every", "1"], "give --steps too, or leave one of them out"),
        (["--seeds", "--task", "free_benchmark", "--list", "mm"], "leave --output, --task, --list out"),
        (["--log-file", "nowhere/file.txt"], "cannot write"),
        (["--task", "free_benchmark", "--max-sample", "3"], "--max-sample: only with --if-preheat"),
    ],
)
def test_wrong_options_are_refused_before_the_script_runs(options, said, tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)

    assert cli.main(["run", *options, "-o", str(tmp_path / "run"), str(script)]) == 2

    refused = capsys.readouterr()
    assert said in refused.err and refused.out == ""


def test_overwrite_removes_a_recording_from_the_folder(tmp_path):
    run(tmp_path, "--level", "L1")
    options = ("--task", "free_benchmark", "--pert-mode", "bit_noise", "--list", "Torch.sub")
    refused = run(tmp_path, *options)
    done = run(tmp_path, *options, "--overwrite")

    assert refused.returncode == 2 and "--overwrite" in refused.stderr
    assert done.returncode == 0, done.stderr
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["free_benchmark.csv"]


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
def test_a_table_of_somebody_else_is_refused_even_where_tables_are_replaced(tmp_path, overwrite):
    table = tmp_path / "run" / "free_benchmark.csv"
    table.parent.mkdir()
    table.write_text("my,own,table\n")
    done = run(tmp_path, "--task", "free_benchmark", "--pert-mode", "bit_noise", *overwrite)

    assert done.returncode == 2 and "the table there has other columns" in done.stderr
    assert table.read_text() == "my,own,table\n" and done.stdout == ""


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes there")
def test_a_pipe_in_the_place_of_a_table_is_refused_and_nobody_waits(tmp_path):
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run" / "free_benchmark.csv")
    done = run(tmp_path, "--task", "free_benchmark", "--pert-mode", "bit_noise")

    assert done.returncode == 2 and "it is a pipe or a device" in done.stderr


def test_the_log_is_written_though_the_script_configures_logging(tmp_path):
    log = tmp_path / "log.txt"
    configures = 'import logging.config\nlogging.config.dictConfig({"version": 1})\n'
    done = run(tmp_path, *BIT_NOISE, "--log-file", str(log), source=configures + SCRIPT)

    assert done.returncode == 0, done.stderr
    assert "Perturbation is bit_noise of Torch.sub.0.forward" in log.read_text()


@pytest.mark.parametrize("place", ["run", "run/free_benchmark.csv", "run/significance.csv"])
def test_the_log_is_never_where_the_run_goes_to(tmp_path, place):
    done = run(tmp_path, *BIT_NOISE, "--log-file", str(tmp_path / place))

    assert done.returncode == 2 and "is where the run goes to" in done.stderr
    assert not (tmp_path / "run").exists()


def test_the_log_is_not_where_the_run_goes_to_by_another_path_either(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    done = run(tmp_path, *BIT_NOISE, "--log-file", str(tmp_path / "link" / "free_benchmark.csv"))

    assert done.returncode == 2 and "is where the run goes to" in done.stderr


@pytest.mark.parametrize(
    "silences", ["logging.disable(logging.CRITICAL)", "logging.getLogger('torchparity').setLevel(40)"]
)
def test_the_log_is_written_though_the_script_silences_logging(tmp_path, silences):
    log = tmp_path / "log.txt"
    done = run(tmp_path, *BIT_NOISE, "--log-file", str(log), source=f"import logging\n{silences}\n{SCRIPT}")

    assert done.returncode == 0, done.stderr
    assert "Perturbation is bit_noise of Torch.sub.0.forward" in log.read_text()


def test_calls_beyond_the_most_stay_counted_where_a_later_step_is_none(tmp_path):
    exponentials = "torch.exp(torch.ones(2)); torch.exp(torch.ones(2)); optimizer.step()"
    source = CANCELS + TRAINING.replace("optimizer.step()", exponentials)
    options = "--task", "free_benchmark", "--pert-mode", "no_change", "--list", "exp", "--max-calls-per-api", "1"
    for after in ("", "model(torch.rand(3, 8))\n"):
        done = run(tmp_path, *options, source=source + after)

        assert "perturbed 2 calls" in done.stderr and "2 calls beyond max_calls_per_api 1" in done.stderr


def test_no_log_is_left_where_the_recording_is_refused(tmp_path):
    (tmp_path / "run").write_text("no folder")
    done = run(tmp_path, *BIT_NOISE, "--log-file", str(tmp_path / "log.txt"))

    assert done.returncode == 2
    assert not (tmp_path / "log.txt").exists()


def test_the_folder_is_the_one_from_which_the_script_was_started(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "train.py").write_text("import os\nos.chdir('elsewhere')\n" + SCRIPT)
    command = [sys.executable, "-m", "torchparity", "run", *BIT_NOISE, "-o", "run", "train.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)

    assert done.returncode == 0, done.stderr
    assert len(rows_in(tmp_path / "run")) == 2


def test_a_prefix_of_the_user_s_that_is_like_a_family_of_torch_is_let_through(tmp_path):
    done = run(tmp_path, "--task", "free_benchmark", "--scope", "MyTensor.add.0.forward,Tensors.add.0.forward")

    assert done.stdout == "trained\n" and "torch has no API" not in done.stderr


@pytest.mark.parametrize("name", ["tensor.sub.0.forward", "Functionl.linear.0.forward"])
def test_a_scope_with_a_misspelt_family_ends_the_script(tmp_path, name):
    done = run(tmp_path, "--task", "free_benchmark", "--scope", name)

    assert done.returncode == 2 and done.stdout == ""
    assert "Did you mean 'Tensor.sub.0" in done.stderr or "Did you mean 'Functional.linear.0" in done.stderr


VARIES = """
import torch

@torch.library.custom_op("torchparity_tests::varies", mutates_args=())
def varies(x: torch.Tensor) -> torch.Tensor:
    varies.calls = getattr(varies, "calls", 0) + 1
    return x + VARIATION * (varies.calls % 2) * (varies.calls > 4)

model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.rand(3, 8)).sum().backward()
    torch.ops.torchparity_tests.varies(torch.ones(3))
    optimizer.step()
for _ in range(4):
    model(torch.rand(3, 8))
    torch.ops.torchparity_tests.varies(torch.ones(3))
"""


@pytest.mark.parametrize("variation", ["1e-5", "1e-2"])
def test_calls_after_the_training_are_not_counted(tmp_path, variation):
    source = VARIES.replace("VARIATION", variation)
    options = "--task", "free_benchmark", "--pert-mode", "no_change", "--list", "varies"
    done = run(tmp_path, *options, source=source)

    assert "perturbed 2 calls with no_change; 0 results beyond the thresholds; see" in done.stderr


def test_lists_given_again_are_added_up_and_stripped(tmp_path):
    done = run(tmp_path, "--task", "free_benchmark", "--list", "layer_norm, linear", "--list", "Torch.sub")

    assert done.returncode == 2  # in float32 there is nothing to raise
    assert "nothing was checked" in done.stderr and "never called" not in done.stderr


def test_the_log_names_each_call_that_was_left_out(tmp_path):
    log = tmp_path / "log.txt"
    done = run(tmp_path, "--task", "free_benchmark", "--pert-mode", "change_value", "--log-file", str(log))

    lines = log.read_text(encoding="utf-8").splitlines()
    left_out = "For Functional.linear.0.forward, its result depends on the order of the elements. Cancel perturbation."
    assert any(line.startswith("INFO torchparity: ") and line.endswith(left_out) for line in lines)
    assert "Cancel perturbation" not in done.stdout + done.stderr


def test_the_log_is_never_the_script(tmp_path):
    script = tmp_path / "train.py"
    done = run(tmp_path, "--task", "free_benchmark", "--pert-mode", "bit_noise", "--log-file", str(script))

    assert done.returncode == 2 and "is the script itself" in done.stderr
    assert script.read_text() == SCRIPT


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_log_that_cannot_be_written_is_one_sentence(tmp_path):
    done = run(tmp_path, "--task", "free_benchmark", "--pert-mode", "bit_noise", "--log-file", "/dev/full")

    assert done.returncode == 0, done.stderr
    assert "could not be written to /dev/full (no space left on device)" in done.stderr
    assert "Traceback" not in done.stderr and "perturbed" in done.stderr


def test_a_log_of_before_stays_where_the_recording_is_refused(tmp_path):
    log, folder = tmp_path / "log.txt", tmp_path / "run" / "free_benchmark.csv"
    log.write_text("of before\n")
    folder.mkdir(parents=True)

    done = run(tmp_path, "--task", "free_benchmark", "--pert-mode", "bit_noise", "--log-file", str(log))

    assert done.returncode == 2 and done.stdout == ""
    assert log.read_text() == "of before\n"


def test_each_of_several_ranks_has_a_log(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        run(tmp_path, "--task", "free_benchmark", "--pert-mode", "bit_noise", "--log-file", str(tmp_path / "log.txt"))

    done = run(tmp_path, "--task", "free_benchmark", "--pert-mode", "bit_noise", "--log-file", "/dev/stderr")
    assert "Perturbation is bit_noise of" in done.stderr
    assert sorted(file.name for file in tmp_path.glob("log*")) == ["log.rank0.txt", "log.rank1.txt"]


def test_a_folder_in_the_place_of_a_table_is_refused_before_the_script_runs(tmp_path):
    (tmp_path / "run" / "free_benchmark.csv").mkdir(parents=True)
    done = run(tmp_path, "--task", "free_benchmark", "--pert-mode", "bit_noise")

    assert done.returncode == 2
    assert "it is a folder" in done.stderr and "trained" not in done.stdout


CANCELS = """
import torch

def cancel(inputs):  # its result has hardly a bit
    return torch.sub(inputs, inputs.detach() * (1 + 1e-4)).sum()

torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
"""
DRY_RUN = """
with torch.no_grad():
    cancel(100 * model(torch.rand(3, 8)))
"""
TRAINING = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    cancel(100 * model(torch.rand(3, 8))).backward()
    optimizer.step()
"""
TRIAL = """
cancel(100 * model(torch.rand(3, 8)))
"""
BIT_NOISE = "--task", "free_benchmark", "--pert-mode", "bit_noise", "--list", "Torch.sub"


@pytest.mark.parametrize("source", [CANCELS + DRY_RUN + TRAINING, CANCELS + TRAINING + TRIAL], ids=["before", "behind"])
def test_calls_that_are_of_no_step_of_the_training_leave_no_rows(tmp_path, source):
    run(tmp_path, *BIT_NOISE, source=CANCELS + TRAINING)
    wanted = [(row["step"], row["api_name"]) for row in rows_in(tmp_path / "run")]
    log = tmp_path / "log.txt"
    done = run(tmp_path, *BIT_NOISE, "--overwrite", "--log-file", str(log), source=source)

    assert [(row["step"], row["api_name"]) for row in rows_in(tmp_path / "run")] == wanted
    assert len(wanted) == 2 and "2 results beyond the thresholds" in done.stderr
    assert "of an earlier training" not in done.stderr
    assert "which counts from step 0" in log.read_text() or source.endswith(TRIAL)


def test_rows_of_an_earlier_training_stay_where_those_before_a_training_go(tmp_path):
    run(tmp_path, *BIT_NOISE, source=CANCELS + TRAINING)
    earlier = rows_in(tmp_path / "run")
    done = run(tmp_path, *BIT_NOISE, source=CANCELS + DRY_RUN + TRAINING)

    assert rows_in(tmp_path / "run")[:2] == earlier and len(rows_in(tmp_path / "run")) == 4
    assert "also has rows of an earlier training" in done.stderr


def test_significance_of_calls_before_the_training_is_taken_back(tmp_path):
    options = "--task", "free_benchmark", "--significance", "2"
    run(tmp_path, *options, source=CANCELS + DRY_RUN + TRAINING)

    rows = [(row["step"], row["kind"], row["name"]) for row in rows_in(tmp_path / "run", "significance.csv")]
    assert rows and len(rows) == len(set(rows))


def test_a_home_that_nobody_has_is_a_folder_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(tmp_path, *BIT_NOISE, "--log-file", "~nobody-of-that-name/log.txt")

    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "~nobody-of-that-name" in done.stderr


def test_a_doubtful_name_is_told_once(tmp_path):
    done = run(tmp_path, "--task", "free_benchmark", "--pert-mode", "bit_noise", "--list", "softmaxx")

    assert done.stderr.count("no API of torch has 'softmaxx' in its name") == 1


def test_no_option_is_an_abbreviation_of_one_of_torchrun():
    """torchrun reads all words, those of the script too, before it knows which are whose."""
    parser = ArgumentParser()
    add_arguments(parser)
    ours = [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
    theirs = torchrun_parser()

    assert not [option for option in ours if option != "--help" and theirs._get_option_tuples(option)]
