"""Hooks on a model do not travel with copies and pickles of it."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from collections import OrderedDict

import pytest
import torch
from torch import nn

from torchparity import open_run
from torchparity.recording import PrecisionDebugger, capture


def test_a_model_can_be_copied_and_pickled(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with capture(tmp_path, model=model):
        twin = copy.deepcopy(model)
        twin(torch.ones(1, 2))
        torch.save(model, io.BytesIO())
        again = pickle.loads(pickle.dumps(model))
    again(torch.ones(1, 2))

    assert not [name for name in open_run(tmp_path).part().records if name.startswith("Module")]


class OwnState(nn.Module):
    """A module that gives its state itself, as DistributedDataParallel does."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def __getstate__(self):
        return {**self.__dict__, "own": True}

    def forward(self, inputs):
        return self.layer(inputs)


def hook_of_the_user(module, args, result):
    return result * 2


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    return file.getvalue()


@pytest.mark.parametrize("save", [saved, pickle.dumps])
def test_a_model_that_is_saved_in_a_recorded_step_is_saved_as_without(tmp_path, save):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model[1].register_forward_hook(hook_of_the_user)
    bare = save(model)

    with capture(tmp_path, model=model) as recording:
        assert save(model) == bare
        model(torch.ones(1, 2))
        assert save(model) == bare
        recording.step()
    assert save(model) == bare


def test_a_model_that_gives_its_state_itself_needs_nothing_of_ours_when_it_is_loaded(tmp_path):
    model = OwnState()
    with capture(tmp_path, model=model):
        content = pickle.dumps(model)

    again = pickle.loads(content)

    assert again.own
    assert b"torchparity.calls" not in content
    assert torch.equal(again(torch.ones(1, 2)), model(torch.ones(1, 2)))


def hook_tables(model):
    """Return the tables of hooks of every module and parameter."""
    names = ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks")
    names += ("_forward_hooks_with_kwargs", "_forward_hooks_always_called")
    of_modules = [getattr(module, name) for module in model.modules() for name in names]
    return of_modules + [parameter._post_accumulate_grad_hooks or {} for parameter in model.parameters()]


def step_of(model):
    model.zero_grad()
    model(torch.ones(1, 2)).sum().backward()


def test_each_step_puts_the_same_hooks_on_again(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with capture(tmp_path, model=model, level="mix") as recording:
        first = [list(table.items()) for table in hook_tables(model)]
        step_of(model)
        recording.step()

        assert [list(table.items()) for table in hook_tables(model)] == first
        step_of(model)

    assert not any(hook_tables(model))
    steps = [set(part.records) for part in open_run(tmp_path).parts]
    assert steps[0] == steps[1]
    assert "Module.0.Linear.parameters_grad.0" in steps[0]


def test_hooks_of_the_user_that_came_between_steps_stay_inside_ours(tmp_path):
    model = nn.Linear(2, 2)
    with capture(tmp_path, model=model, level="L0") as recording:
        step_of(model)
        model.register_forward_hook(lambda *_: torch.zeros(1, 2, requires_grad=True))
        recording.step()
        model(torch.ones(1, 2))

    record = open_run(tmp_path).parts[1].records["Module.Linear.forward.0"]
    assert record.output[0].statistics.max == 0


@pytest.mark.parametrize(
    "table",
    [
        "_forward_hooks",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
        "_forward_pre_hooks",
        "_forward_pre_hooks_with_kwargs",
    ],
)
def test_a_module_whose_hooks_were_replaced_between_steps_is_hooked_anew(tmp_path, table):
    model = nn.Linear(2, 2)
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L0")
    for step in range(2):
        if step:
            setattr(model, table, OrderedDict())
        debugger.start(model)
        step_of(model)
        debugger.stop()
        debugger.step()
    debugger.close()

    assert not any(hook_tables(model))
    assert "Module.Linear.forward.0" in open_run(tmp_path).parts[-1].records


def test_a_parameter_at_the_address_of_one_that_is_gone_is_hooked_anew(tmp_path):
    model = nn.Linear(2, 2, bias=False)
    with capture(tmp_path, model=model, level="L0"):
        address, values = id(model.weight), torch.ones(2, 2)
        del model.weight
        others = [nn.Parameter(values)]
        while id(others[-1]) != address and len(others) < 10_000:
            others.append(nn.Parameter(values))
        assert id(others[-1]) == address
        model.weight = others[-1]
        step_of(model)

    gradients = open_run(tmp_path).part().records["Module.Linear.parameters_grad.0"].gradients
    assert list(gradients) == ["weight"]


def test_a_model_that_goes_between_steps_is_not_kept(tmp_path):
    model = nn.Linear(2, 2)
    reference = weakref.ref(model)
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="mix")
    debugger.start(model)
    step_of(model)
    debugger.stop()
    debugger.step()
    del model
    gc.collect()

    assert reference() is None
    debugger.close()


def test_a_recording_leaves_nothing_behind(tmp_path):
    """Most that it makes is unknown to the garbage collector, which could not free it if it were part of a cycle."""
    tracked = []
    for run in range(4):
        model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
        with capture(tmp_path / str(run), model=model, level="mix") as recording:
            for _ in range(5):
                step_of(model)
                optimizer.step()
                recording.step()
        del model, optimizer, recording
        gc.collect()
        tracked.append(len(gc.get_objects()))

    assert tracked[3] - tracked[2] < 10, tracked
