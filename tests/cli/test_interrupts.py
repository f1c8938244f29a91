"""Ctrl-C ends a command with one line that says what is left behind, and exit code 130."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

import torchparity
from tests.support.runs import write_linear_run


def start(*words):
    command = [sys.executable, "-m", "torchparity", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def interrupted(process):
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    return said


def wait_for_reader(pipe, process):
    """Return when a process has opened a named pipe, in which it then waits."""
    while process.poll() is None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads it yet
            time.sleep(0.01)
    raise AssertionError(process.communicate())


@pytest.fixture
def waiting_file(tmp_path):
    os.mkfifo(tmp_path / "waits")
    return tmp_path / "waits"


def test_a_comparison_says_that_nothing_was_written(tmp_path, waiting_file):
    run, tables = write_linear_run(tmp_path / "run", steps=1), tmp_path / "tables"
    process = start("compare", run, run, "-o", tables, "-dm", waiting_file)
    pipe = wait_for_reader(waiting_file, process)

    said = interrupted(process)
    os.close(pipe)

    assert said == "torchparity: interrupted; nothing was written.\n"
    assert not tables.exists()


def test_a_comparison_names_the_tables_that_are_whole(tmp_path):
    run, tables = tmp_path / "run", tmp_path / "tables"
    with torchparity.capture(str(run), level="L1") as recording:
        for _ in range(4000):
            torch.exp(torch.ones(2))
        recording.step()
    process = start("compare", run, run, "-o", tables, "--format", "csv,xlsx")
    while process.poll() is None and not list(tables.glob("compare_result_*.csv")):
        time.sleep(0.005)

    said = interrupted(process)

    (table,) = tables.iterdir()
    assert table.suffix == ".csv" and len(table.read_text().splitlines()) > 4000
    assert said == f"torchparity: interrupted; written before: {table}.\n"


def test_another_command_says_that_it_was_interrupted(tmp_path, waiting_file):
    process = start("check", write_linear_run(tmp_path / "run", steps=1), "-config", waiting_file)
    pipe = wait_for_reader(waiting_file, process)

    said = interrupted(process)
    os.close(pipe)

    assert said == "torchparity: interrupted.\n"
