"""Parameters that torch swaps for others: recording leaves their hooks as they would be without it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from torchparity import PrecisionDebugger, capture, open_run
from torchparity.calls.guard.inert_hooks import HookedParameter


@pytest.fixture(autouse=True)
def swapping():
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


def trained(model, called):
    """Train a step in whose backward the user's own hooks are called."""
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda parameter: called.append(tuple(parameter.shape)))
    model(torch.ones(2, 4, dtype=torch.double)).sum().backward()


def test_hooks_that_come_after_a_swap_in_a_recorded_step_are_called(tmp_path):
    model, called = nn.Linear(4, 1), []
    with capture(tmp_path, model=model, level="mix"):
        model.double()
        trained(model, called)

    assert sorted(called) == [(1,), (1, 4)]
    gradients = open_run(tmp_path).parts[0].records["Module.Linear.parameters_grad.0"]
    assert sorted(gradients.gradients) == ["bias", "weight"]


def test_hooks_that_come_after_a_recording_and_a_swap_are_called(tmp_path):
    model, called = nn.Linear(4, 1), []
    with capture(tmp_path, model=model, level="mix") as recording:
        model(torch.ones(2, 4)).sum().backward()
        recording.step()
    model.zero_grad()
    model.double()
    trained(model, called)

    assert sorted(called) == [(1,), (1, 4)]


def test_steps_after_that_of_a_swap_have_their_gradients(tmp_path):
    model = nn.Linear(4, 1)
    with capture(tmp_path, model=model, level="mix") as recording:
        for step in range(3):
            if step == 1:
                model.zero_grad()
                model.double()
            dtype = model.weight.dtype
            model(torch.ones(2, 4, dtype=dtype)).sum().backward()
            recording.step()

    for part in open_run(tmp_path).parts[:3]:
        assert sorted(part.records["Module.Linear.parameters_grad.0"].gradients) == ["bias", "weight"]


def test_a_swap_between_two_steps_of_a_debugger_costs_no_gradients(tmp_path):
    model, called = nn.Linear(4, 1), []
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    for step in range(2):
        debugger.start(model)
        if step:
            trained(model, called)
        else:
            model(torch.ones(2, 4)).sum().backward()
        debugger.stop()
        debugger.step()
        model.zero_grad()
        model.double()
    debugger.close()

    assert sorted(called) == [(1,), (1, 4)]
    for part in open_run(tmp_path).parts:
        assert sorted(part.records["Module.Linear.parameters_grad.0"].gradients) == ["bias", "weight"]


def test_a_swap_of_a_module_that_is_dumped_by_hand_too_costs_nothing(tmp_path):
    model = nn.Linear(4, 1)
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    debugger.start(model)
    debugger.module_dump(model, "mine")
    model.double()
    model(torch.ones(2, 4, dtype=torch.double)).sum().backward()
    debugger.module_dump_end()
    debugger.stop()
    debugger.step()
    debugger.close()

    part = open_run(tmp_path).parts[0]
    assert sorted(part.records["Module.mine.Linear.parameters_grad.0"].gradients) == ["bias", "weight"]
    assert not part.missing


def test_a_swap_of_a_large_model_in_a_step_takes_one_look_at_each_parameter(tmp_path, monkeypatch):
    looks = []
    original = HookedParameter.is_of
    monkeypatch.setattr(HookedParameter, "is_of", lambda hooked, tensor: looks.append(1) or original(hooked, tensor))
    model = nn.Sequential(*[nn.Linear(1, 1) for _ in range(50)])

    with capture(tmp_path, model=model, level="mix"):
        looks.clear()
        model.double()

    assert len(looks) <= 4 * 100


def test_a_mode_of_the_user_s_does_not_see_what_is_done_at_a_swap(tmp_path):
    class Counting(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.calls += 1
            return function(*args, **(kwargs or {}))

    def calls(model):
        with Counting() as mode:
            model.double()
        return mode.calls

    alone = calls(nn.Linear(4, 4))
    model = nn.Linear(4, 4)
    with capture(tmp_path, model=model, level="mix"):
        recorded = calls(model)

    assert recorded == alone


def test_a_parameter_that_torch_drops_the_hooks_of_is_told(tmp_path):
    model, called = nn.Linear(4, 1), []
    model.weight.register_post_accumulate_grad_hook(lambda parameter: called.append(parameter.shape))
    with capture(tmp_path, model=model, level="mix"):
        model.double()
        model(torch.ones(2, 4, dtype=torch.double)).sum().backward()

    part = open_run(tmp_path).parts[0]
    assert called == []  # as without a recording
    assert sorted(part.records["Module.Linear.parameters_grad.0"].gradients) == ["bias"]
    assert any("after which torch calls no hooks on its gradient" in sentence for sentence in part.missing)


def test_hooks_of_the_user_that_were_there_stay(tmp_path):
    model, called = nn.Linear(4, 1), []
    handle = model.weight.register_post_accumulate_grad_hook(lambda parameter: called.append(parameter.shape))
    with capture(tmp_path, model=model, level="mix") as recording:
        for _ in range(2):
            model(torch.ones(2, 4)).sum().backward()
            recording.step()
    model(torch.ones(2, 4)).sum().backward()

    assert len(called) == 3
    handle.remove()
    assert not model.bias._post_accumulate_grad_hooks
