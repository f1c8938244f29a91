"""Hooks on a model do not travel with copies and pickles of it."""

from __future__ import annotations

import copy
import io
import pickle

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
