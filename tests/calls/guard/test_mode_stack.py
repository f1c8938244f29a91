"""torch's stack of function modes: our mode leaves it alone, wherever a recording begins and ends."""

from __future__ import annotations

import signal
import threading

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from tests.support.interrupts import interrupts, ring
from torchparity import open_run
from torchparity.calls.guard import mode_stack
from torchparity.calls.guard.mode_stack import is_on, put_below, take_off, without
from torchparity.calls.intercept import backward_entry
from torchparity.recording import PrecisionDebugger, capture


def test_stop_in_another_thread_does_no_harm(tmp_path):
    debugger = PrecisionDebugger(dump_path=tmp_path)
    debugger.start()
    torch.ones(1).exp()
    thread = threading.Thread(target=debugger.stop)
    thread.start()
    thread.join()
    torch.ones(1).log()
    debugger.close()
    while torch._C._len_torch_function_stack():
        torch.overrides._pop_mode()

    assert not [name for name in open_run(tmp_path).part().records if "log" in name]


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_recording_may_begin_inside_a_mode_that_ends_before_it(tmp_path, level):
    model = nn.Linear(2, 2)
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level=level)
    try:
        with torch.device("meta"):
            debugger.start(model)
        model(torch.ones(1, 2))
        debugger.stop()
        debugger.step()
    finally:
        debugger.close()

    assert torch.ones(1).device.type == "cpu" and torch._C._len_torch_function_stack() == 0
    assert len(open_run(tmp_path).part().records) >= 1


def test_the_default_device_may_change_while_recording(tmp_path):
    try:
        torch.set_default_device("cpu")
        with capture(tmp_path, level="L1"):
            torch.set_default_device("meta")
            made = torch.ones(1)
            torch.set_default_device(None)
    finally:
        torch.set_default_device(None)

    assert made.device.type == "meta" and torch._C._len_torch_function_stack() == 0


def names_on_the_stack():
    count = torch._C._len_torch_function_stack()
    return [type(torch._C._get_function_stack_at(index)).__name__ for index in range(count)]


def stop_in_a_backward_hook(debugger):
    y = torch.randn(3, requires_grad=True) * 2
    y.register_hook(lambda gradient: debugger.stop())
    y.sum().backward()


def stop_in_a_thread(debugger):
    thread = threading.Thread(target=debugger.stop)
    thread.start()
    thread.join()


@pytest.mark.parametrize("stop", [stop_in_a_backward_hook, stop_in_a_thread])
def test_after_a_stop_from_elsewhere_every_call_is_recorded_once(tmp_path, stop):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    debugger.start()
    stop(debugger)
    debugger.step()
    debugger.start()
    torch.ones(3).sin()
    debugger.stop()
    debugger.step()
    PrecisionDebugger.close()

    assert list(open_run(tmp_path).part(step=1).records) == ["Torch.ones.0.forward", "Tensor.sin.0.forward"]
    assert names_on_the_stack() == []


class Others(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_a_stop_in_a_backward_hook_leaves_the_modes_of_others(tmp_path):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    with Others():
        debugger.start()
        stop_in_a_backward_hook(debugger)
        debugger.step()
        PrecisionDebugger.close()
        assert names_on_the_stack() == ["Others"]
    assert names_on_the_stack() == []


def test_a_mode_that_was_entered_meanwhile_stays(tmp_path):
    debugger = PrecisionDebugger(dump_path=tmp_path)
    debugger.start()
    with torch.device("meta"):
        debugger.stop()
        assert torch.ones(2).is_meta
    debugger.close()

    assert torch._C._len_torch_function_stack() == 0


class _TimedOutError(Exception):
    """Raised by the handler of an alarm."""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_an_alarm_while_our_mode_is_taken_off_leaves_the_user_s_modes(tmp_path):
    """Whatever step of Python's it comes at: the default device of the training stays."""

    def ring(*_):
        raise _TimedOutError

    class Passing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    mode = Passing()
    before = signal.signal(signal.SIGALRM, ring)
    try:
        with torch.device("meta"):
            put_below(mode)
            for number in range(300):
                with pytest.raises(_TimedOutError):
                    signal.setitimer(signal.ITIMER_REAL, 1e-4 + number * 1e-6)
                    while True:
                        with without(mode):
                            pass
                assert torch.ones(1).device.type == "meta"
                put_below(mode)
            take_off(mode)
            assert torch._C._len_torch_function_stack() == 1
    finally:
        signal.signal(signal.SIGALRM, before)


def enter_without(mode):
    with without(mode):
        pass


def test_an_alarm_while_our_mode_is_off_leaves_it_where_it_was():
    mode, places = Others(), 0
    for run_interrupted in interrupts(mode_stack.__file__, ring):
        put_below(mode)
        run_interrupted(lambda: enter_without(mode))
        assert is_on(mode)
        take_off(mode)
        places += 1

    assert places > 20 and names_on_the_stack() == []


@pytest.mark.parametrize("module", [mode_stack, backward_entry])
def test_an_alarm_as_a_backward_begins_or_ends_leaves_one_mode(tmp_path, module):
    weight, places = torch.ones(2, requires_grad=True), 0
    with capture(tmp_path):
        for run_interrupted in interrupts(module.__file__, ring):
            run_interrupted(lambda: weight.sum().backward())
            assert names_on_the_stack() == ["ApiMode"]
            places += 1

    assert places > 5
