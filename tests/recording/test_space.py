"""Recordings that have not enough space, and recordings whose folder is removed under them."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import time
from typing import NamedTuple

import pytest
import torch

from torchparity import open_run
from torchparity.config import CaptureConfig, capture_config
from torchparity.errors import ConfigError
from torchparity.recording import capture
from torchparity.recording.selection.selection import Selection
from torchparity.recording.writing.output import Output

GIB = 1 << 30


class Usage(NamedTuple):
    total: int
    free: int


@pytest.mark.parametrize(
    ("given", "size"),
    [(1, 1), (5000, 5000), ("20GB", 20_000_000_000), ("1.5 GiB", 3 * GIB // 2), ("7B", 7), (None, None)],
)
def test_max_bytes_is_a_number_or_a_text_with_a_unit(given, size):
    assert capture_config({"max_bytes": given}).max_bytes == size


@pytest.mark.parametrize("given", [0, -1, True, 1.5, "20", "20XB", "GB", "0B", [1]])
def test_what_is_no_size_is_refused(given):
    with pytest.raises(ConfigError, match=r"'max_bytes' is .*; it must be a whole number of bytes from 1, or text"):
        capture_config({"max_bytes": given})


@pytest.mark.parametrize(
    "settings",
    [{"task": "tensor"}, {"task": "tensor", "tensor_format": "pt"}, {"tensor_list": ["exp"]}],
    ids=["shards", "pt", "tensor-list"],
)
def test_a_recording_stops_storing_values_at_max_bytes(tmp_path, settings, capsys, caplog):
    with capture(tmp_path, max_bytes="100KiB", **settings) as recording:
        for _ in range(5):
            torch.exp(torch.randn(10_000))
            recording.step()

    line = capsys.readouterr().out
    parts = open_run(tmp_path).parts
    assert 40_000 < sum(file.stat().st_size for file in tmp_path.rglob("dump_tensor_data/*")) <= 102_400
    assert "incomplete: the values of " in line and "were left out: max_bytes of 100.0 KiB is reached;" in line
    assert caplog.text.count("without values of further tensors: max_bytes of 100.0 KiB is reached") == 1
    for part in parts:
        leaf = part.record("Torch.exp.0.forward").input_args[0]
        assert leaf.statistics is not None
    assert any("were left out" in problem for problem in parts[-1].problems)


def wait_for_file(folder, name):
    deadline = time.monotonic() + 30
    while not list(folder.rglob(name)):
        assert time.monotonic() < deadline, f"{name} does not appear"
        time.sleep(0.001)


def output(tmp_path, free, **fields):
    config = CaptureConfig(dump_path=str(tmp_path), **fields)
    return Output(config, Selection(), level="L1", rank=0, disk_usage=lambda _: Usage(total=1000 * GIB, free=free))


@pytest.mark.parametrize(("task", "warns"), [("tensor", True), ("statistics", False)])
def test_a_disk_with_little_space_is_told_before_tensors_are_recorded(tmp_path, caplog, task, warns):
    output(tmp_path, 2 * GIB, task=task).close([])

    assert ("has 2.0 GiB free" in caplog.text) == warns


def test_a_real_small_disk_is_not_filled_to_its_end(tmp_path, capsys):
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("this process may not mount a small disk")
    try:
        with capture(folder / "run", task="tensor") as recording:
            for _ in range(30):
                torch.exp(torch.randn(20_000))
                recording.step()
        run = open_run(folder / "run")
        assert len(run.steps) == 30 and all(part.is_complete for part in run.parts)
        assert shutil.disk_usage(folder).free > 0
        assert "were left out: the disk has " in capsys.readouterr().out
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_run_that_was_removed_is_not_proposed_for_comparison(tmp_path, capsys):
    folder = tmp_path / "run"
    with capture(folder) as recording:
        torch.exp(torch.ones(3))
        recording.step()
        wait_for_file(folder, "dump.json")
        shutil.rmtree(folder)

    line = capsys.readouterr().out
    assert line.startswith(f"torchparity: recorded nothing at {folder}; incomplete: step 0 was removed after being")
    assert f"the folder {folder} is gone" in line
    assert "next:" not in line


def test_a_folder_removed_within_a_step_is_named(tmp_path, capsys, caplog):
    folder = tmp_path / "run"
    with capture(folder, task="tensor") as recording:
        torch.exp(torch.ones(3))
        wait_for_file(folder, "journal.jsonl")
        shutil.rmtree(folder)
        recording.step()
        torch.exp(torch.ones(3))

    line = capsys.readouterr().out
    # The second step may or may not have begun when the first one failed.
    assert re.match(
        rf"torchparity: recorded nothing at {folder}; incomplete: (1 step|2 steps) not finished: cannot write "
        rf"{folder}/step0/\S+: no such file or directory; the folder {folder} is gone\n",
        line,
    )
    assert caplog.text.count("training goes on") <= 1


def test_steps_that_are_left_are_proposed_and_those_removed_are_named(tmp_path, capsys, caplog):
    caplog.set_level(logging.INFO)
    folder = tmp_path / "run"
    with capture(folder) as recording:
        torch.exp(torch.ones(3))
        recording.step()
        wait_for_file(folder, "dump.json")
        shutil.rmtree(folder / "step0")
        torch.exp(torch.ones(3))

    line = capsys.readouterr().out
    assert "recorded 2 records in 1 step" in line and "incomplete: step 0 was removed after being written;" in line
    assert line.rstrip().endswith("BASELINE")
