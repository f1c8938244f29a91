"""Where a run is written: folders, ranks, forks, and disks that refuse."""

from __future__ import annotations

import multiprocessing
import os
import sys

import pytest
import torch

from tests.support.disks import mounted_disk
from tests.support.processes import run_python
from tests.support.runs import write_linear_run
from torchparity import open_run
from torchparity.errors import ConfigError, RunExistsError, RunWriteError
from torchparity.recording import PrecisionDebugger, capture


def test_a_run_stays_where_it_began(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    with capture("run") as recording:
        torch.ones(1).exp()
        recording.step()
        os.chdir("other")
        torch.ones(1).exp()

    assert open_run(tmp_path / "run").steps == [0, 1]
    assert not any((tmp_path / "other").iterdir())
    assert f"at {tmp_path / 'run'} (" in capsys.readouterr().out


def test_a_path_is_printed_as_it_was_given(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with capture("a  b"):
        torch.ones(1).exp()

    printed = capsys.readouterr().out
    assert "at a  b (" in printed and "torchparity compare 'a  b' BASELINE" in printed


def test_a_home_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with capture("~/run"):
        torch.ones(1).exp()

    assert open_run(tmp_path / "run").steps == [0]


def test_before_its_group_is_made_a_process_has_the_rank_that_was_announced(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with capture(tmp_path):
        torch.ones(1).exp()

    assert open_run(tmp_path).ranks == [3]


def record_in_child(debugger, rank):
    debugger.start(rank_id=rank)
    torch.ones(3).exp()
    debugger.stop()
    debugger.step()
    PrecisionDebugger.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no forks")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_debugger_made_before_a_fork_records_in_the_children(tmp_path):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    children = [multiprocessing.get_context("fork").Process(target=record_in_child, args=(debugger, n)) for n in (0, 1)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    PrecisionDebugger.close()

    assert open_run(tmp_path).ranks == [0, 1]


@pytest.mark.parametrize("path", [b"run", 5, None])
def test_a_folder_that_is_no_path_is_refused(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="the folder to write to"), capture(path):
        pass
    assert not any(tmp_path.iterdir())


def test_a_path_that_no_disk_can_have_is_refused(tmp_path):
    with pytest.raises(RunWriteError, match="null"), capture(f"{tmp_path}/a\0b"):
        pass


def test_without_extra_info_there_are_no_stacks_and_parents(tmp_path):
    for name, extra_info in (("with", True), ("without", False)):
        with capture(tmp_path / name, extra_info=extra_info):
            torch.ones(1).exp()

    files = [{file.name for file in (tmp_path / name / "step0" / "rank0").iterdir()} for name in ("with", "without")]
    assert files[0] - files[1] == {"stack.json", "construct.json"}
    part = open_run(tmp_path / "without").part()
    assert part.problems == [] and part.look() == [] and list(part.stacks) == []


def test_a_run_that_is_there_is_refused_unless_overwrite_is_asked_for(tmp_path):
    write_linear_run(tmp_path)

    with pytest.raises(RunExistsError), capture(tmp_path):
        pass
    with capture(tmp_path, settings={"overwrite": True}):
        torch.exp(torch.ones(1))

    assert "Torch.exp.0.forward" in open_run(tmp_path).part().records


def test_a_path_that_cannot_be_written_is_refused_at_start(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(RunWriteError), capture(tmp_path / "file" / "run"):
        pass
    with pytest.raises(RunWriteError):  # at the first start, though nothing would be written before step 9
        PrecisionDebugger(dump_path=tmp_path / "file" / "run", step=[9]).start()


def test_a_full_disk_ends_the_recording_not_the_training(tmp_path, caplog, capsys):
    with mounted_disk(tmp_path / "disk", megabytes=1) as disk, capture(disk / "run", task="tensor") as recording:
        totals = []
        while "stops recording, training goes on" not in caplog.text and len(totals) < 2000:
            totals.append(torch.randn(50_000).exp().sum())
            recording.step()
        for _ in range(3):
            totals.append(torch.randn(50_000).exp().sum())
            recording.step()

    assert len(totals) > 3 and torch.stack(totals).isfinite().all()
    assert caplog.text.count("stops recording, training goes on") == 1
    assert "incomplete: " in capsys.readouterr().out


def test_a_disk_that_refuses_is_told_at_the_end(tmp_path):
    code = (
        "import resource, signal, sys, torch; from torchparity.recording import PrecisionDebugger\n"
        "debugger = PrecisionDebugger(dump_path=sys.argv[1], task='tensor')\n"
        "debugger.start(); torch.ones(9).exp(); debugger.step()\n"
        "import time; time.sleep(0.5)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "for _ in range(6):\n"
        "    debugger.start(); torch.randn(100_000).exp(); debugger.stop(); debugger.step(); time.sleep(0.1)\n"
        "print('trained')\n"
    )
    done = run_python(code, tmp_path)

    assert done.returncode == 0, done.stderr
    assert "trained" in done.stdout
    assert done.stderr.count("stops recording, training goes on") == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("torchparity: ")]
    assert "recorded 2 records in 1 step" in line
    assert "1 step not finished" in line and "file too large" in line.lower()


@pytest.mark.parametrize(
    ("settings", "has_every_call"),
    [
        pytest.param({"level": "L1"}, True, id="APIs"),
        pytest.param({"level": "mix"}, True, id="APIs and modules"),
        pytest.param({"level": "L0"}, False, id="modules"),
        pytest.param({"settings": {"statistics": {"list": ["linear"]}}}, False, id="list"),
        pytest.param({"settings": {"statistics": {"scope": ["Functional.linear.0.forward"] * 2}}}, False, id="scope"),
        pytest.param({"settings": {"statistics": {"data_mode": ["forward"]}}}, False, id="forward"),
        pytest.param({"settings": {"statistics": {"data_mode": ["forward", "backward"]}}}, True, id="both directions"),
        pytest.param({"settings": {"risk_level": "CORE"}}, False, id="core"),
    ],
)
def test_a_run_says_whether_it_has_every_call(tmp_path, settings, has_every_call):
    model = torch.nn.Linear(2, 2)
    with capture(tmp_path, model=model, **settings):
        model(torch.ones(1, 2))

    assert open_run(tmp_path).part().info.has_every_call is has_every_call
