"""`compare` and `Comparison` as users call them: typed, documented, and with an answer to what is misspelt."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runs import write_linear_run
from torchparity import Comparison, compare
from torchparity.comparing import Options
from torchparity.errors import ConfigError, ParityError

SOURCE = Path(__file__).parent.parent.parent / "src"
CLIENT = """
from pathlib import Path
import torchparity
from torchparity import Comparison, compare

comparison: Comparison = compare("candidate", Path("baseline"), align="name", highlight=True)
compare("candidate", "baseline", ignore=["layers.0"], after="*.dropout.*", tolerance=1e-3)
compare({"npu_path": "a", "bench_path": "b"}, "output", True, auto_analyze=False, formats=["csv"])
reveal_type(compare("a", "b"))
reveal_type(comparison.headline())
reveal_type(comparison.first_divergence)
reveal_type(comparison.verdict)
reveal_type(comparison.other_findings())
reveal_type(comparison.rows_compared())
reveal_type(comparison.frame)
reveal_type(comparison.numbers)
reveal_type(comparison.has_differences)
reveal_type(comparison.parts)
reveal_type(comparison.notes)
reveal_type(comparison.counts())
reveal_type(comparison.to_csv("a.csv"))
reveal_type(comparison.write("folder", ["csv"]))
reveal_type([item.deviation for item in comparison.comparisons])
reveal_type([item.metrics for item in comparison.comparisons])
"""


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """Check a text as a user's file; return the lines that mypy prints."""
    folder = tmp_path_factory.mktemp("client")

    def check(text):
        (folder / "client.py").write_text(text)
        command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(folder / "cache")]
        environment = os.environ | {"MYPYPATH": str(SOURCE)}
        done = subprocess.run([*command, "client.py"], cwd=folder, env=environment, capture_output=True, text=True)
        return done.stdout.splitlines()

    return check


def test_a_users_calls_are_typed_and_misspelt_ones_are_errors(mypy):
    lines = mypy(CLIENT + 'compare("a", "b", aling="name")\ncompare("a", "b", align="nmae")\n')

    notes = [line for line in lines if "Revealed type" in line]
    errors = [line for line in lines if ": error:" in line]
    assert len(notes) == CLIENT.count("reveal_type")
    assert not [line for line in notes if "Any" in line]
    wrong = [CLIENT.count("\n") + place for place in (1, 2)]
    assert {int(line.split(":")[1]) for line in errors} == set(wrong), lines


def test_a_misspelt_option_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match=r"^compare has no option 'aling'\. Did you mean 'align'\? There are: "):
        compare("a", "b", aling="name")


def test_the_signature_is_there_to_read():
    assert list(inspect.signature(compare).parameters)[:2] == ["candidate", "baseline"]
    assert inspect.getdoc(compare).startswith("Compare two runs.")


def test_an_alignment_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match=r"align 'nmae' does not exist\. There are: name, order, fuzzy"):
        compare("a", "b", align="nmae")


def test_options_cannot_be_changed():
    with pytest.raises(AttributeError):
        Options().by = "name"


def test_every_public_method_of_a_comparison_is_documented():
    public = {name: member for name, member in vars(Comparison).items() if not name.startswith("_")}

    assert [name for name, member in public.items() if not inspect.getdoc(member)] == []


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "json", "parquet"])
def test_a_comparison_writes_itself_in_every_format(suffix, tmp_path):
    path = write_linear_run(tmp_path / "run")
    comparison = compare(path, path)

    (file,) = getattr(comparison, f"to_{suffix}")(tmp_path / f"table.{suffix}")
    (other,) = getattr(comparison, f"to_{suffix}")(str(tmp_path / "folder"))

    assert file == tmp_path / f"table.{suffix}" and file.stat().st_size > 0
    assert other.parent == tmp_path / "folder" and other.name.startswith("compare_result")


def test_msprobes_form_writes_into_the_folder(tmp_path):
    path = write_linear_run(tmp_path / "run")

    comparison = compare({"npu_path": str(path), "bench_path": str(path)}, str(tmp_path / "out"), formats=["csv"])

    names = sorted(file.name.rpartition("_")[0] for file in (tmp_path / "out").iterdir())
    assert isinstance(comparison, Comparison)
    assert names == ["advisor", "compare_result"]


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    path = write_linear_run(tmp_path / "run")
    folder = tmp_path / "out"
    folder.mkdir()
    comparison = compare(path, path)
    (folder / f"advisor_{comparison.timestamp}.txt").mkdir()

    with pytest.raises(ParityError, match="cannot write"):
        comparison.write(folder, ["csv"])

    assert not [file for file in folder.iterdir() if file.name.endswith(".part")]
