"""A line while kernels are compiled: it comes when that takes long, and once."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from torchparity.kernels.compile_notice import CompileNotice

LINE = "torchparity compiles its kernels for the moon"


def wait_for_a_line(caplog):
    until = time.monotonic() + 30
    while not caplog.messages and time.monotonic() < until:
        time.sleep(0.01)


def test_what_takes_long_is_told_while_it_lasts_and_once(caplog):
    notice = CompileNotice("the moon", patience=0)
    with notice.while_compiling():
        wait_for_a_line(caplog)
        assert [message.startswith(LINE) for message in caplog.messages] == [True]
    with notice.while_compiling():
        time.sleep(0.05)
    assert len(caplog.messages) == 1


def test_what_is_loaded_at_once_is_not_told(caplog):
    with CompileNotice("the moon", patience=60).while_compiling():
        pass
    assert not caplog.messages


def test_the_line_does_not_come_after_what_failed(caplog):
    try:
        with CompileNotice("the moon", patience=0.2).while_compiling():
            raise ValueError
    except ValueError:
        time.sleep(0.4)
    assert not caplog.messages


def test_what_is_only_loaded_is_not_told_however_long_it_takes(caplog):
    with CompileNotice("the moon", patience=0.01, has_begun=lambda: False).while_compiling():
        time.sleep(0.2)
    assert not caplog.messages


@pytest.mark.parametrize("is_compiled", [False, True])
def test_the_arena_of_the_host_knows_loading_from_compiling(is_compiled, tmp_path):
    script = """
import torchparity.kernels.compile_notice as notices
notices._PATIENCE = notices.CompileNotice.__init__.__kwdefaults__["patience"] = 0.001
from torchparity.kernels.arenas import host_arena
host_arena(exact=False, checksums=False)
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(1 + is_compiled):
        said = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )

    assert ("compiles its kernels for the CPU" in said.stderr) == (not is_compiled)
