"""Folders, processes and errors around a recording: one place, one writer, and an end that is told as it was."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time

import pytest
import torch
from torch import nn

from tests.support.processes import ROOT
from torchparity import Record, compare, open_run
from torchparity.errors import ConfigError, RunWriteError
from torchparity.recording import PrecisionDebugger, capture
from torchparity.storage import RunWriter


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


def test_of_two_writers_of_one_rank_the_second_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "torchparity.storage.writing.run_writer.has_records", lambda folder: False
    )  # both look, then write
    first, second = RunWriter(tmp_path), RunWriter(tmp_path)  # both look, then write
    first.start_step(0)
    first.add(Record(name="Torch.exp.0.forward", direction="forward"))
    deadline = time.monotonic() + 60
    while not (tmp_path / "step0" / "rank0" / "journal.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(RunWriteError, match="another process records there as the same rank"):
        second.start_step(0)
        second.finish_step()
        second.close()
    first.finish_step()
    first.close()

    assert list(open_run(tmp_path).part().records) == ["Torch.exp.0.forward"]


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


def test_a_step_that_an_error_cut_off_says_so(tmp_path, capsys):
    model = nn.Linear(2, 2)

    def train(path, *, fails):
        with capture(path, model=model):
            loss = model(torch.ones(1, 2)).sum()
            if fails:
                raise ValueError("no")
            loss.backward()

    train(tmp_path / "whole", fails=False)
    with pytest.raises(ValueError, match="no"):
        train(tmp_path / "cut", fails=True)

    assert "step 0 was cut off by ValueError" in capsys.readouterr().out
    assert "step 0 was cut off by ValueError." in " ".join(open_run(tmp_path / "cut").part().problems)
    assert "cut off" in " ".join(compare(tmp_path / "cut", tmp_path / "whole").notes)


def test_a_program_that_an_error_ended_says_so(tmp_path):
    code = (
        "import sys, torch; from torchparity import PrecisionDebugger\n"
        "PrecisionDebugger(dump_path=sys.argv[1], level='L1').start(); torch.ones(1).exp(); raise KeyError('no')"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=ROOT)

    assert done.returncode == 1 and "step 0 was cut off by KeyError" in done.stdout


def test_what_failed_in_one_step_is_not_said_of_the_next(tmp_path, capsys):
    class Odd(dict):
        def items(self):
            raise RuntimeError("odd")

    with capture(tmp_path) as recording:
        torch.ones(1).exp()
        recording.save(Odd(a=1), "odd")
        recording.step()
        torch.ones(1).exp()

    run = open_run(tmp_path)
    assert "once not recorded: odd" in " ".join(run.part(step=0).problems)
    assert run.part(step=1).problems == []
    assert "once not recorded: odd" in capsys.readouterr().out


def test_a_debugger_without_arguments_is_the_one_there_is(tmp_path):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    try:
        assert PrecisionDebugger() is debugger
        with pytest.raises(ConfigError, match="other settings"):
            PrecisionDebugger(level="L0")
    finally:
        PrecisionDebugger.close()


def test_a_text_of_several_steps_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="step"):
        PrecisionDebugger(dump_path=str(tmp_path), level="L1", step="0,2")


@pytest.mark.parametrize("step", [(0, 2), range(0, 3, 2), [0, 2], None])
def test_steps_are_any_sequence(tmp_path, step):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"task": "statistics", "level": "L1", "rank": None, "step": None}))
    debugger = PrecisionDebugger(str(config), dump_path=str(tmp_path / "run"), step=step)
    for _ in range(3):
        debugger.start()
        torch.ones(1).exp()
        debugger.stop()
        debugger.step()
    PrecisionDebugger.close()

    assert open_run(tmp_path / "run").steps == ([0, 1, 2] if step is None else [0, 2])


@pytest.mark.parametrize("path", [b"run", 5, None])
def test_a_folder_that_is_no_path_is_refused(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="the folder to write to"), capture(path):
        pass
    assert not any(tmp_path.iterdir())


def test_a_path_that_no_disk_can_have_is_refused(tmp_path):
    with pytest.raises(RunWriteError, match="null"), capture(f"{tmp_path}/a\0b"):
        pass


@pytest.mark.parametrize("rank", ["3", True, 1.5, -1])
def test_a_rank_is_a_whole_number(tmp_path, rank):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    try:
        with pytest.raises(ConfigError, match="a rank is a whole number"):
            debugger.start(rank_id=rank)
    finally:
        PrecisionDebugger.close()


def test_without_a_compiler_for_its_kernels_nothing_begins(tmp_path):
    code = "import sys; from torchparity import capture\nwith capture(sys.argv[1]): print('training')"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=ROOT, env=environment
    )

    assert done.returncode == 1 and "training" not in done.stdout
    assert "NUMBA_DISABLE_JIT" in done.stderr.splitlines()[-1]
