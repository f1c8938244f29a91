"""torchparity run_ut and multi_run_ut on the files of a collection, and where they save what failed."""

from __future__ import annotations

import csv
import json
import warnings

import pytest
import torch
from torch.nn import functional as F

from torchparity import cli
from torchparity.check.collection.collector import Collector
from torchparity.check.collection.settings import CollectionSettings


def softplus(x, beta=1, threshold=20):
    return (x * beta).exp().log1p() / beta * (1.01 if x.dtype == torch.float32 else 1)


@pytest.fixture(scope="module")
def _wrong_softplus():
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch tells that a kernel is replaced
        library.impl("softplus", softplus, "CPU")
    yield
    library._destroy()


@pytest.fixture
def collect(tmp_path, monkeypatch, _wrong_softplus):
    """Collect an iteration in a folder of its own, and stand in another; return the arguments for its files."""
    (tmp_path / "dump").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)

    def collected(**settings):
        collector = Collector(CollectionSettings(dump_path="dump", enable_dataloader=False, **settings))
        collector.watch()
        collector.switch_on()
        F.softplus(torch.linspace(-1, 1, 8))
        torch.exp(torch.ones(3))
        collector.close()
        (forward,) = (tmp_path / "dump").glob("forward_info_*.json")
        monkeypatch.chdir(tmp_path / "here")
        backward = forward.with_name(forward.name.replace("forward", "backward"))
        return ["-forward", str(forward), "-backward", str(backward), "-d", "cpu"]

    return collected


def saved(folder):
    return [path.stem for path in (folder / "scripts").glob("*.py")]


def test_what_failed_is_saved_where_run_ut_is_started(tmp_path, collect):
    assert cli.main(["run_ut", *collect(), "-save_error_data"]) == 0

    assert saved(tmp_path / "here" / "ut_error_data") == ["Functional.softplus.0"]
    assert not list((tmp_path / "dump").glob("run_ut_settings_*"))


@pytest.mark.parametrize("given", ["errors", "{}/errors"])
def test_the_folder_that_the_collection_was_given_is_used(tmp_path, collect, given):
    assert cli.main(["run_ut", *collect(error_data_path=given.format(tmp_path)), "-save_error_data"]) == 0

    assert saved(tmp_path / "errors" / "ut_error_data") == ["Functional.softplus.0"]
    assert not (tmp_path / "here" / "ut_error_data").exists()


def test_the_command_line_and_the_config_win_over_the_collection(tmp_path, collect):
    arguments = [*collect(error_data_path="errors"), "-save_error_data"]
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"error_data_path": str(tmp_path / "configured")}))

    cli.main(["run_ut", *arguments, "-config", str(config)])
    cli.main(["run_ut", *arguments, "-config", str(config), "--error_data_path", "typed"])

    assert saved(tmp_path / "configured" / "ut_error_data") == saved(tmp_path / "here" / "typed")
    assert saved(tmp_path / "here" / "typed") == ["Functional.softplus.0"]
    assert not (tmp_path / "errors").exists()


def test_settings_that_are_none_are_one_sentence(tmp_path, collect, capsys):
    arguments = collect(error_data_path="errors")
    (settings,) = (tmp_path / "dump").glob("run_ut_settings_*.json")
    settings.write_text("[]")
    capsys.readouterr()

    assert cli.main(["run_ut", *arguments, "-save_error_data"]) == 2
    assert "it has no error_data_path" in capsys.readouterr().err


def test_multi_run_ut_gives_the_rows_of_run_ut(collect, tmp_path):
    arguments = collect()
    cli.main(["run_ut", *arguments, "-o", "one"])

    assert cli.main(["multi_run_ut", *arguments, "-n", "2", "-o", "two"]) == 0

    files = [tmp_path / "here" / name / "accuracy_checking_details.csv" for name in ("one", "two")]
    one, two = ([row["API Name"] for row in csv.DictReader(path.read_text().splitlines())] for path in files)
    assert one == two  # the statuses differ: the processes have torch's own kernel
    assert "Functional.softplus.0.forward.output.0" in one


@pytest.mark.parametrize(("words", "said"), [([], "multi_run_ut needs one of"), (["-n", "65"], "it must be from 1 to")])
def test_what_multi_run_ut_cannot_do_is_one_sentence(collect, capsys, words, said):
    arguments = collect() if words else []
    capsys.readouterr()

    assert cli.main(["multi_run_ut", *arguments, *words]) == 2
    assert said in capsys.readouterr().err


def test_values_that_were_moved_are_found_where_they_are_said_to_be(collect, tmp_path, capsys):
    arguments = collect(real_data=True)
    (tmp_path / "moved").mkdir()
    (tmp_path / "dump" / "forward_real_data").rename(tmp_path / "moved" / "forward_real_data")

    cli.main(["run_ut", *arguments])
    without = capsys.readouterr().out
    cli.main(["run_ut", *arguments, "-real_data_path", str(tmp_path / "moved")])

    assert " 0 SKIP" not in without.splitlines()[-3]
    assert " 0 SKIP" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-forward", "forward_info_0.json", "--step", "1"], "run_ut: --step has no meaning with -forward"),
        (["-api_info", "dump.json", "-real_data_path", "."], "run_ut: -real_data_path has no meaning with -api_info"),
        (["-api_info", "forward_info_0.json", "--rank", "1"], "is a forward_info, which has no steps and ranks"),
    ],
)
def test_options_without_a_meaning_are_refused(capsys, words, said):
    assert cli.main(["run_ut", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run_ut", "overflow"])
def test_a_folder_in_place_of_a_forward_info_says_what_to_name(tmp_path, capsys, command):
    assert cli.main([command, "-forward", str(tmp_path)]) == 2

    wanted = "name the forward_info_0.json of a process in it, or a run with -api_info"
    assert capsys.readouterr().err == f"torchparity: {tmp_path} is a folder; {wanted}.\n"
