"""A fault of the recorder costs a record or a step and never reaches the training; the user's own exceptions do."""

from __future__ import annotations

import functools
import os
import signal

import pytest
import torch

from torchparity import open_run
from torchparity.calls.guard.boundary import Boundary
from torchparity.recording import capture
from torchparity.recording.measuring.measurement_cache import MeasurementCache
from torchparity.recording.measuring.measurer import Measurer
from torchparity.recording.step.recorder import Recorder


class LateError(Exception):
    pass


def late(number, frame, extra=None):
    raise LateError


def late_of_any(*_):
    raise LateError


def late_and_put_back(number, frame):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    raise LateError


class Late:
    def __call__(self, number, frame):
        raise LateError


class InheritsLate(Late):
    pass


HANDLERS = [late, late_of_any, late_and_put_back, functools.partial(late, extra=1), InheritsLate(), Late().__call__]


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no alarms here")
@pytest.mark.parametrize("handler", HANDLERS)
def test_what_a_signals_handler_raises_reaches_the_user(tmp_path, monkeypatch, handler):
    original, before = Recorder.before, signal.signal(signal.SIGALRM, handler)

    def interrupted(*arguments, **options):
        signal.raise_signal(signal.SIGALRM)
        return original(*arguments, **options)

    try:
        with capture(tmp_path):
            monkeypatch.setattr(Recorder, "before", interrupted)
            with pytest.raises(LateError):
                torch.ones(1).exp()
            monkeypatch.undo()
            torch.ones(1).sin()
    finally:
        signal.signal(signal.SIGALRM, before)

    assert "Tensor.sin.0.forward" in open_run(tmp_path).part().records


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


def test_a_fault_of_the_recorder_never_reaches_the_training(tmp_path, monkeypatch, caplog):
    original = Measurer.measure

    def broken(self, tensor):
        if tensor.numel() == 7:
            raise ZeroDivisionError("our bug")
        return original(self, tensor)

    monkeypatch.setattr(Measurer, "measure", broken)
    x = torch.ones(7, requires_grad=True)
    with capture(tmp_path):
        for _ in range(3):
            (x * 2).sum().backward()
        torch.exp(torch.ones(1))

    assert x.grad.tolist() == [6.0] * 7
    assert caplog.text.count("our bug") == len({record.message for record in caplog.records})
    part = open_run(tmp_path).part()
    assert "Torch.exp.0.forward" in part.records
    assert any("our bug" in problem for problem in part.problems)


def record_three_steps(path, task):
    with capture(path, task=task) as recording:
        for number in range(3):
            torch.full((2,), float(number)).exp()
            if number < 2:
                recording.step()


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_fault_of_ours_at_the_end_of_a_step_costs_the_step_alone(tmp_path, monkeypatch, caplog, task):
    finish, calls = MeasurementCache.finish_step, []

    def faulty(self, step=0):
        calls.append(1)
        pending = finish(self, step)
        if len(calls) == 2:
            raise ValueError("our bug")
        return pending

    monkeypatch.setattr(MeasurementCache, "finish_step", faulty)
    record_three_steps(tmp_path, task)

    run = open_run(tmp_path)
    assert [step for step in run.steps if run.part(step).records] == [0, 2]
    assert "our bug" in caplog.text
    assert any("our bug" in problem for problem in run.part(2).problems)


def test_a_device_that_fails_after_a_step_costs_the_step_alone(tmp_path, monkeypatch, capsys):
    finish, calls = MeasurementCache.finish_step, []

    def faulty(self, step=0):
        calls.append(1)
        pending = finish(self, step)

        def failing():
            raise RuntimeError("the device is gone")

        if len(calls) == 2:
            pending.wait_for_rows = failing
        return pending

    monkeypatch.setattr(MeasurementCache, "finish_step", faulty)
    record_three_steps(tmp_path, "statistics")

    run = open_run(tmp_path)
    assert [step for step in run.steps if run.part(step).records] == [0, 2]
    assert any("the device is gone" in problem for problem in run.part(1).problems)
    said = capsys.readouterr().out
    assert "4 records in 3 steps" in said and "the device is gone" in said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork beside threads
def test_a_forked_child_runs_nothing_of_ours_until_it_belongs_there():
    boundary = Boundary()
    assert boundary.run("here", lambda: 1) == 1

    child = os.fork()
    if child == 0:
        inherited = boundary.run("there", lambda: 1)
        boundary.belong_here()
        os._exit(0 if inherited is None and boundary.run("there", lambda: 1) == 1 else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert boundary.run("here", lambda: 1) == 1
