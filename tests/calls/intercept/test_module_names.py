"""Names of a model's modules."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

from torchparity.calls.intercept.module_names import ModuleNames, named_modules


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = nn.Sequential(nn.Linear(2, 2), nn.GELU())


def test_every_module_is_named_by_its_path_and_class():
    model, names = Model(), ModuleNames()

    added = names.add_all(model)

    assert added == named_modules(model)
    assert [name for _, name in added] == [
        "Module.Model",
        "Module.part.Sequential",
        "Module.part.0.Linear",
        "Module.part.1.GELU",
    ]
    assert all(names.of(module) == name for module, name in added)
    assert names.of(nn.GELU()) is None


def test_several_models_have_their_index_and_keep_the_names_that_they_have():
    first, second, names = Model(), Model(), ModuleNames()

    names.add_all([first, first.part, second])

    assert names.of(first.part[0]) == "Module.0.part.0.Linear"
    assert names.of(second.part[0]) == "Module.2.part.0.Linear"
    assert names.add_all(first) == []


def test_names_that_were_forgotten_are_given_again():
    model, names = Model(), ModuleNames()
    names.add_all(model)

    names.forget()

    assert names.of(model.part) is None
    assert names.add_all(model) == named_modules(model)


@pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated")
def test_scripted_modules_have_no_names_and_are_told_when_names_are_forgotten():
    model, names = Model(), ModuleNames()
    model.part = torch.jit.trace(model.part, torch.ones(1, 2))

    added = names.add_all(model)
    names.forget()

    assert added == [(model, "Module.Model")]
    assert next(iter(names.scripted)) == "Module.part"


def test_no_model_is_kept_alive():
    model, names = Model(), ModuleNames()
    names.add_all(model)
    reference = weakref.ref(model)

    del model
    gc.collect()

    assert reference() is None
