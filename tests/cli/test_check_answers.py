"""What torchparity check says beside its verdicts: lists, skips, files that it goes on with, all inputs as a file."""

from __future__ import annotations

import csv
import json

import pytest
import torch

from torchparity import capture, cli


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("answers") / "run"
    with capture(path, level="L1"):
        x = torch.nn.functional.gelu(torch.linspace(-2, 2, 64))
        torch.exp(x)
        torch.empty(3)
    return path


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_white_list_that_no_call_is_on_is_wrong_usage(run, tmp_path, capsys):
    assert cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path), "--white_list", "geluu"]) == 2

    said = capsys.readouterr()
    assert said.err == "torchparity: white list: no call is named 'geluu'. Did you mean 'gelu'?\n"
    assert "calls left out by the lists." in said.out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("geluu", "torchparity: black list: no call is named 'geluu'. Did you mean 'gelu'?\n"),
        ("matmul", ""),
        ("relu", ""),
    ],
)
def test_a_black_list_is_doubted_where_a_call_has_nearly_that_name(run, tmp_path, capsys, name, said):
    assert cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path), "--black_list", name]) == 0
    assert capsys.readouterr().err == said


def test_a_folder_for_what_fails_that_cannot_be_written_is_refused_before_the_check(run, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "errors"

    words = ["check", str(run), "-d", "cpu", "-o", str(tmp_path), "-save_error_data", "--error_data_path", str(folder)]

    assert cli.main(words) == 2
    assert capsys.readouterr().err == f"torchparity: cannot write {folder}: not a directory.\n"
    assert not list(tmp_path.glob("*.csv"))


@pytest.mark.parametrize("name", ["gelu", "Functional.gelu", "Functional.gelu.0"])
def test_operators_apis_and_calls_are_names_of_a_white_list(run, tmp_path, capsys, name):
    assert cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path), "--white_list", name]) == 0
    assert capsys.readouterr().err == ""


def test_a_skip_has_its_reason_on_the_terminal(run, tmp_path, capsys):
    assert cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path)]) == 0

    (skipped,) = [
        row for row in rows(tmp_path / "accuracy_checking_result.csv") if row["Forward Test Success"] == "SKIP"
    ]
    assert f"SKIP: {skipped['API name']}: {skipped['Message']}" in capsys.readouterr().out.splitlines()


def test_a_check_that_goes_on_counts_what_was_done_before(run, tmp_path, capsys):
    result = tmp_path / "accuracy_checking_result.csv"
    cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path)])
    result.write_text(result.read_text().replace("Functional.gelu.0,pass", "Functional.gelu.0,error"))
    capsys.readouterr()

    assert cli.main(["check", str(run), "-d", "cpu", "-csv_path", str(result), "--fail-on", "error"]) == 1
    statuses = [row["Forward Test Success"] for row in rows(result)]
    assert f"Done before: {len(statuses)} calls: " in (said := capsys.readouterr().out)
    assert f"1 error, {statuses.count('pass')} pass." in said


def test_a_file_of_another_run_is_noticed(run, tmp_path, capsys):
    angles = torch.ones(3)
    with capture(tmp_path / "other", level="L1"):
        torch.exp(angles)
        torch.sin(angles)
    cli.main(["check", str(tmp_path / "other"), "-d", "cpu", "-o", str(tmp_path)])
    result = tmp_path / "accuracy_checking_result.csv"
    capsys.readouterr()

    cli.main(["check", str(run), "-d", "cpu", "-csv_path", str(result)])
    assert "1 call of" in (said := capsys.readouterr().err) and "is it of another run?" in said


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_the_worst_call_says_where_and_why(run, tmp_path, capsys):
    library = torch.library.Library("aten", "IMPL")
    library.impl("exp", lambda x: torch.pow(2.718, x) if x.dtype == torch.float32 else torch.pow(torch.e, x), "CPU")
    try:
        cli.main(["check", str(run), "-d", "cpu", "-o", str(tmp_path)])
    finally:
        library._destroy()

    (worst,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Torch.exp.0: ")]
    assert worst.startswith("Torch.exp.0: forward.output.0: Its double ten-thousandth ")
    assert "times what rounding explains." in worst


def test_all_inputs_become_files_where_a_folder_is_named(tmp_path, capsys):
    words = ["check", "--exhaustive", "relu,special.erfcx,relu", "-d", "cpu", "-o", str(tmp_path)]
    assert cli.main([*words, "--format", "csv,json"]) == 0

    written = rows(tmp_path / "accuracy_checking_exhaustive.csv")
    assert [(row["function"], row["status"]) for row in written] == [("relu", "pass"), ("special.erfcx", "SKIP")]
    assert written[1]["worst ULP"] == "" and "erfcx" in written[1]["Message"]
    assert json.loads((tmp_path / "accuracy_checking_exhaustive.json").read_text())["columns"][0] == "function"
    assert capsys.readouterr().out.count("Wrote ") == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["RUN", "--exhaustive", "exp"], "a run or --exhaustive, not both"),
        (["RUN", "--dtype", "float16"], "--dtype is of --exhaustive"),
        (["RUN", "-api_info", "dump.json"], "both are given"),
        (["--exhaustive", ","], "need names"),
        (["RUN", "-config", "wrong.json"], "wrong.json: unknown field 'whitelist'. Did you mean 'white_list'?"),
        (["RUN", "-o", "wrong.json"], "-o wrong.json is a file; name a folder"),
        (["structure"], "has task structure, which keeps no arguments"),
    ],
)
def test_what_would_be_ignored_is_refused(run, tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.json").write_text('{"task": "statistics", "whitelist": ["gelu"]}')
    if arguments == ["structure"]:
        with capture("structure", model=torch.nn.Tanh(), task="structure"):
            torch.exp(torch.ones(2))
        capsys.readouterr()

    assert cli.main(["check", *(str(run) if word == "RUN" else word for word in arguments)]) == 2
    said = capsys.readouterr()
    assert sentence in said.err and said.err.count("\n") == 1 and said.out == ""
