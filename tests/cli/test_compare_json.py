"""`compare --json`: one object of at most 64 KiB, the same answer as the headline, without loading tables."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

import torchparity
from tests.support.dumps import call, constant, write_dump
from tests.support.processes import ROOT
from torchparity.cli import main
from torchparity.comparing import answer, json_text

EXP = "Torch.exp.0.forward"
PAGE = (ROOT / "docs" / "verdicts.md").read_text()


@pytest.fixture
def pair(tmp_path):
    """Two runs of one call, whose results differ."""
    return [
        str(write_dump(tmp_path / name, {EXP: call([constant(1.0)], [constant(output)])}))
        for name, output in (("candidate", 2.0), ("baseline", "nan"))
    ]


def asked(capsys, *arguments):
    code = main(["compare", *arguments, "--json"])
    printed = capsys.readouterr()
    assert len(printed.out.encode()) <= 64 * 1024 + 1  # with the newline that ends it
    return json.loads(printed.out, parse_constant=pytest.fail), code, printed


def test_it_is_the_answer_of_the_headline(pair, capsys):
    told, code, _ = asked(capsys, *pair, "--fail-on", "divergence")

    done = torchparity.compare(*pair)
    assert (told["schema"], told["verdict"], told["sentence"]) == (2, done.verdict.kind.value, done.headline())
    assert told["exit_code"] == code == 1
    assert told["first"]["record"] == EXP and told["first"]["item"] == "output.0"
    assert told["first"]["deviation"] == "inf"
    assert told["first"]["beyond_numbers"] == "has nan in the baseline alone"
    assert told["counts"] == {"records": {"name": 1}, "rows": {"statistics": 2}}
    assert told["runs"]["candidate"] == pair[0] and told["runs"]["steps"] == [0]
    assert told["trimmed"] is False
    assert answer(done, fail_on="divergence") == told


def test_the_command_that_it_names_works(pair, capsys):
    told, _, _ = asked(capsys, *pair)

    words = told["next"].split()
    assert words[:2] == ["torchparity", "show"] and main(words[1:]) == 0


def test_the_page_has_every_key(pair, capsys):
    told, _, _ = asked(capsys, *pair)

    explained = {
        name for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert explained == {*told, *told["first"]}


@pytest.mark.parametrize(
    "notes",
    [pytest.param(["x" * 100_000], id="long"), pytest.param([f"note {n} {'x' * 100}" for n in range(9000)], id="many")],
)
def test_what_is_too_long_is_cut_and_said(pair, notes):
    done = torchparity.compare(*pair)
    done.notes += notes

    text = json_text(done)

    told = json.loads(text)
    assert len(text.encode()) <= 64 * 1024 and told["trimmed"] is True
    assert told["sentence"] == done.headline() and told["first"]["record"] == EXP
    assert 1 <= len(told["notes"]) < 9000 and (len(notes) > 1 or told["notes"][-1].endswith("…"))


def test_notes_do_not_reach_stdout(golden, capsys):
    left, right = (str(golden / "runs" / f"conv-{task}-L1-base") for task in ("tensor", "statistics"))

    told, _, printed = asked(capsys, left, right)

    assert told["verdict"] == "agree" and told["first"] is None
    assert any("holds more than the other run" in note for note in told["notes"])
    assert "holds more than the other run" in printed.err


def test_a_mistake_leaves_stdout_empty(tmp_path, capsys):
    assert main(["compare", str(tmp_path / "none"), str(tmp_path / "other"), "--json"]) == 2

    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("torchparity: ")


@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["headline", "json"])
@pytest.mark.parametrize("task", ["tensor", "statistics", "md5"])
def test_neither_it_nor_the_headline_loads_what_tables_need(golden, task, arguments):
    runs = [str(golden / "runs" / f"conv-{task}-L1-{name}") for name in ("perturb", "base")]
    code = (
        "import sys; from torchparity.cli import main\n"
        f"main({['compare', *runs, *arguments, '--fail-on', 'any']!r})\n"
        "sys.stderr.write(str('polars' in sys.modules))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stderr == "False"


def test_the_headline_of_one_rank_loads_neither_help_nor_config_nor_communication(golden):
    runs = [str(golden / "runs" / f"conv-statistics-L1-{name}") for name in ("perturb", "base")]
    rest = ("rich_argparse", "torchparity.config", "torchparity.communication.shares", "torchparity.comparing.entry")
    code = (
        "import sys; from torchparity.cli import main\n"
        f"main({['compare', *runs]!r})\n"
        f"sys.stderr.write(str([name for name in {rest!r} if name in sys.modules]))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stderr == "[]"


def test_files_that_were_written_are_listed(pair, tmp_path, capsys):
    told, _, _ = asked(capsys, *pair, "-o", str(tmp_path / "out"), "-da")

    assert sorted(told["files"]) == sorted(map(str, (tmp_path / "out").iterdir()))
