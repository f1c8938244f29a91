"""Hooks on a model do not travel with copies and pickles of it."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from torchparity import open_run
from torchparity.recording import capture


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
