"""What the command line says before any command runs: help, version, and mistyped commands and options."""

from __future__ import annotations

import re

import pytest

from torchparity import cli


def test_without_arguments_the_help_is_printed(capsys):
    code = cli.main([])

    printed = capsys.readouterr()
    assert code == 0
    assert printed.err == ""
    for command in cli.command_names():
        assert re.search(rf"^ +{command}\s", printed.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "wrong", "nearest"),
    [
        pytest.param(["compare", "a", "b", "--fromat", "csv"], "--fromat", "--format", id="compare"),
        pytest.param(["compare", "a", "b", "--fromat=csv"], "--fromat", "--format", id="with-a-value"),
        pytest.param(["compare", "a", "b", "--highligth"], "--highligth", "--highlight", id="swapped-letters"),
        pytest.param(["show", "run", "--nonfinit"], "--nonfinit", None, id="abbreviations-are-accepted"),
        pytest.param(["show", "run", "--verfy"], "--verfy", "--verify", id="show"),
        pytest.param(["convert", "a", "b", "--to", "pt", "--overwirte"], "--overwirte", "--overwrite", id="convert"),
    ],
)
def test_a_mistyped_option_is_answered_with_the_nearest(capsys, arguments, wrong, nearest):
    code = cli.main(arguments)

    said = capsys.readouterr().err
    assert code == 2
    if nearest is None:
        assert "unknown option" not in said
    else:
        assert said == f"torchparity: {arguments[0]} has no option {wrong!r}. Did you mean {nearest!r}?\n"


def test_an_option_like_no_other_is_answered_with_the_command_that_lists_them(capsys):
    assert cli.main(["show", "run", "--qqq"]) == 2
    assert capsys.readouterr().err == "torchparity: show has no option '--qqq'; see torchparity show --help.\n"


def test_a_mistyped_command_is_answered_with_the_nearest(capsys):
    assert cli.main(["comapre", "a", "b"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("torchparity: no command 'comapre'. Did you mean 'compare'? ")
    assert said.endswith(f"There are: {', '.join(cli.command_names())}.\n")


@pytest.mark.parametrize("task", ["free_benchmark", "statistics"])
def test_a_task_that_is_taken_for_a_command_is_answered_with_run(capsys, task):
    assert cli.main([task, "train.py"]) == 2
    assert capsys.readouterr().err == (
        f"torchparity: no command {task!r}, which is a task of run: torchparity run --task {task} SCRIPT.\n"
    )


def test_another_framework_is_refused_by_what_there_is(capsys):
    assert cli.main(["-f", "mindspore", "compare", "a", "b"]) == 2
    assert "pytorch" in capsys.readouterr().err


def test_an_argument_too_many_is_named(capsys):
    assert cli.main(["convert", "a", "b", "c", "--to", "pt"]) == 2
    assert "'c'" in capsys.readouterr().err


def test_what_comes_after_two_dashes_is_no_option(capsys):
    assert cli.main(["show", "--", "--nowhere"]) == 2
    assert "has no option" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["run", "--task", "free_bench", "train.py"],
            "run: --task is 'free_bench'; it must be one of statistics, tensor, structure, overflow_check, "
            "free_benchmark. Did you mean 'free_benchmark'?",
            id="choice",
        ),
        pytest.param(
            ["show", "run", "--tensor"],
            "show: --tensor: expected one argument; see torchparity show --help.",
            id="value",
        ),
        pytest.param(
            ["convert", "run"],
            "convert: the following arguments are required: OUT, --to; see torchparity convert --help.",
            id="required",
        ),
    ],
)
def test_other_mistakes_are_one_sentence_too(capsys, arguments, said):
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err == f"torchparity: {said}\n"


def test_headings_of_help_keep_the_names_of_options(capsys):
    cli.main(["run", "--help"])

    assert "For --task free_benchmark (docs/free-benchmark.md):" in capsys.readouterr().out


def test_a_tilde_that_the_shell_left_is_the_folder_of_the_user(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").write_text("")

    assert cli.main(["compare", "no-run", "no-other", "--output_path=~/file"]) == 2
    assert cli.main(["compare", "~no_such_user/run", "no-other"]) == 2

    refused, missing = capsys.readouterr().err.splitlines()
    assert refused == f"torchparity: cannot write {tmp_path / 'file'}: not a directory."
    assert "~no_such_user/run" in missing
