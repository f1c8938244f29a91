"""A line while kernels are compiled: it comes when that takes long, and once."""

from __future__ import annotations

import time

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
