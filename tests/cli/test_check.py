"""torchparity check and run_ut as people type them."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from torch.nn import functional as F

import torchparity
from torchparity import cli


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checked") / "run"
    torch.manual_seed(0)
    weight = torch.randn(4, 4, requires_grad=True)
    with torchparity.capture(str(folder), level="L1") as recording:
        for _ in range(3):
            F.gelu(F.linear(torch.ones(2, 4), weight)).sum().backward()
        recording.step()
    return folder


def names(folder):
    with (folder / "accuracy_checking_result.csv").open() as file:
        return [row["API name"] for row in csv.DictReader(file)]


def test_a_run_and_its_dump_give_the_same_rows(run, tmp_path, capsys):
    assert cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path / "a")]) == 0
    said = capsys.readouterr().out
    dump = run / "step0" / "rank0" / "dump.json"
    assert cli.main(["run_ut", "-api_info", str(dump), "-d", "cpu", "--out_path", str(tmp_path / "b")]) == 0

    assert "0 error" in said
    files = [(tmp_path / name / "accuracy_checking_details.csv").read_text() for name in "ab"]
    assert files[0] == files[1]


def test_duplicates_are_left_out_when_asked(run, tmp_path):
    cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path), "-f"])

    assert "Functional.gelu.0" in names(tmp_path)
    assert "Functional.gelu.1" not in names(tmp_path)


@pytest.fixture
def ranks(tmp_path, monkeypatch):
    """A run of two ranks and two steps, each rank with a shape of its own."""
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        with torchparity.capture(tmp_path / "ranks", level="L1") as recording:
            for _ in range(2):
                torch.exp(torch.ones(3 + rank))
                recording.step()
    return tmp_path / "ranks"


@pytest.mark.parametrize("processes", ["1", "2"])
def test_rows_say_their_step_and_rank_and_what_is_left_out_is_said(ranks, tmp_path, capsys, processes):
    assert cli.main(["check", str(ranks), "-d", "cpu", "-o", str(tmp_path), "-n", processes]) == 0

    said = capsys.readouterr().out
    assert "of other steps and ranks, which differ in nothing but their values" in said
    for stem in ("result", "details"):
        with (tmp_path / f"accuracy_checking_{stem}.csv").open() as file:
            rows = [
                (row["Step"], row["Rank"])
                for row in csv.DictReader(file)
                if "exp" in (row.get("API name") or row["API Name"])
            ]
        assert rows == [("0", "0"), ("0", "1")]


def test_a_check_of_several_ranks_goes_on_where_it_was(ranks, tmp_path, capsys):
    cli.main(["check", str(ranks), "-d", "cpu", "-o", str(tmp_path), "--step", "all"])
    result = tmp_path / "accuracy_checking_result.csv"
    whole = result.read_text()
    result.write_text("".join(whole.splitlines(keepends=True)[:-1]))

    assert cli.main(["check", str(ranks), "-d", "cpu", "-csv_path", str(result), "--step", "all"]) == 0

    assert result.read_text() == whole
    assert "Checked 1 call on cpu" in capsys.readouterr().out


def test_processes_give_the_same_rows_in_the_same_order(run, tmp_path):
    cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path / "one")])
    assert cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path / "two"), "-n", "2"]) == 0

    files = [(tmp_path / name / "accuracy_checking_details.csv").read_text() for name in ("one", "two")]
    assert files[0] == files[1]


def test_a_check_goes_on_with_the_file_of_an_earlier_one(run, tmp_path, capsys):
    cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path)])
    result = tmp_path / "accuracy_checking_result.csv"
    whole = result.read_text()
    result.write_text("".join(whole.splitlines(keepends=True)[:3]))
    capsys.readouterr()

    assert cli.main(["check", str(run), "-d", "cpu", "-csv_path", str(result)]) == 0

    assert result.read_text() == whole
    assert f"Checked {len(whole.splitlines()) - 3} calls" in capsys.readouterr().out


def test_an_error_of_the_earlier_check_is_not_forgotten(run, tmp_path, capsys):
    cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path)])
    result = tmp_path / "accuracy_checking_result.csv"
    head, first, *rest = result.read_text().splitlines(keepends=True)
    result.write_text(head + first.replace("pass", "error", 1) + rest[0])
    capsys.readouterr()

    assert cli.main(["check", str(run), "-d", "cpu", "-csv_path", str(result), "--fail-on", "error"]) == 1
    assert "Done before: 2 calls: 1 error, 1 pass." in capsys.readouterr().out


def test_the_file_of_another_run_is_refused(run, tmp_path, capsys):
    cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path)])
    result = tmp_path / "accuracy_checking_result.csv"
    head, first, *_ = result.read_text().splitlines(keepends=True)
    result.write_text(head + "Torch.elsewhere.0" + first[first.index(",") :])

    assert cli.main(["check", str(run), "-d", "cpu", "-csv_path", str(result)]) == 2
    assert "is of another check" in capsys.readouterr().err


def test_a_config_has_the_lists(run, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"task": "run_ut", "run_ut": {"white_list": ["gelu"]}}))

    cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path), "-config", str(config)])

    with (tmp_path / "accuracy_checking_result.csv").open() as file:
        judged = [row["API name"] for row in csv.DictReader(file) if row["Forward Test Success"] == "pass"]
    assert judged == ["Functional.gelu.0", "Functional.gelu.1", "Functional.gelu.2"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "check needs a run"),
        (["RUN", "-d", "quantum"], "'quantum' is no device"),
        (["RUN", "-d", "0"], "names an accelerator by number"),
        (["RUN", "-n", "0"], "-n is 0; it must be from 1 to 64."),
        (["RUN", "-n", "many"], "-n is 'many'; it must be a whole number."),
        (["RUN", "--format", "pdf"], "no report format named 'pdf'"),
        (["RUN", "--step", "7"], "has no step '7'"),
        (["RUN", "--step", "0,x"], "--step is '0,x'; it must be numbers such as 3 or 0,4-6, or all."),
        (["RUN", "--rank", "3-2"], "--rank is '3-2', which names nothing"),
        (["RUN", "-config", "nowhere.json"], "cannot be read"),
        (["nowhere"], "nowhere"),
        (["--exhaustive", "blancmange"], "blancmange"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(run, capsys, arguments, sentence):
    if "-d" in arguments and torch.accelerator.is_available():
        pytest.skip("a number names an accelerator here")

    assert cli.main(["check", *(str(run) if word == "RUN" else word for word in arguments)]) == 2

    said = capsys.readouterr().err
    assert said.startswith("torchparity: ") and sentence in said and said.count("\n") == 1


def test_all_inputs_of_a_unary_function_are_a_row(capsys):
    assert cli.main(["check", "--exhaustive", "relu", "--dtype", "float16,bfloat16", "-d", "cpu"]) == 0

    rows = [[cell.strip() for cell in line.split(" | ")[:3]] for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows == [["relu", "float16", "pass"], ["relu", "bfloat16", "pass"]]


def test_run_ut_needs_one_kind_of_file(capsys):
    assert cli.main(["run_ut"]) == 2
    assert "run_ut needs one of" in capsys.readouterr().err


def test_a_forward_info_that_is_none_is_one_sentence(tmp_path, capsys):
    (tmp_path / "forward_info_0.json").write_text("[1, 2]")

    assert cli.main(["run_ut", "-forward", str(tmp_path / "forward_info_0.json")]) == 2
    assert "it is no forward_info" in capsys.readouterr().err


def test_an_interrupt_keeps_what_is_done(tmp_path):
    with torchparity.capture(str(tmp_path / "run"), level="L1") as recording:
        values = torch.ones(2)
        for _ in range(3000):
            values = torch.exp(values) * 0
        recording.step()
    command = [sys.executable, "-m", "torchparity", "check", str(tmp_path / "run"), "-d", "cpu", "-o", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    result = tmp_path / "accuracy_checking_result.csv"
    while process.poll() is None and not (result.is_file() and len(result.read_text().splitlines()) > 20):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate()

    assert process.returncode == 130
    assert "Interrupted" in said and "-csv_path" in said
    assert 20 <= len(names(tmp_path)) < 6000
