"""Names of a model's modules: all at once, or those of inner modules when somebody asks."""

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
    assert names.add_all(model) == []


def test_inner_modules_are_named_when_one_is_asked_for():
    model, names = Model(), ModuleNames()

    assert names.add_outermost(model) == [(model, "Module.Model")]
    assert names.of(model.part[1]) == "Module.part.1.GELU"
    assert names.of(nn.GELU()) is None


def test_several_models_have_their_index_and_further_ones_are_added():
    first, second, third, names = Model(), Model(), nn.Linear(2, 2), ModuleNames()

    names.add_outermost([first, second])
    names.add_outermost(nn.Sequential(third))

    assert names.of(second.part[0]) == "Module.1.part.0.Linear"
    assert names.of(first) == "Module.0.Model"


def test_models_of_an_earlier_step_have_no_names():
    earlier, later, names = Model(), Model(), ModuleNames()
    names.add_outermost(earlier)
    names.forget()

    assert names.of(earlier.part) is None
    assert names.add_outermost(later) == [(later, "Module.Model")]
    assert names.of(earlier.part) is None and names.of(later.part) == "Module.part.Sequential"
    assert names.add_outermost(earlier) == [(earlier, "Module.Model")]


def test_a_model_hooked_again_is_named_again():
    model, names = Model(), ModuleNames()
    names.add_outermost(model)
    assert names.of(model.part) is not None

    names.forget()

    assert names.add_outermost(model) == [(model, "Module.Model")]
    assert names.of(model.part) == "Module.part.Sequential"


@pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated")
def test_scripted_modules_are_told_after_the_names_are_forgotten():
    model, names = Model(), ModuleNames()
    model.part = torch.jit.trace(model.part, torch.ones(1, 2))

    added = names.add_outermost(model)
    names.forget()

    assert added == [(model, "Module.Model")]
    assert next(iter(names.scripted())) == "Module.part"


def test_no_model_is_kept_alive():
    model, names = Model(), ModuleNames()
    names.add_outermost(model)
    reference = weakref.ref(model)

    del model
    gc.collect()

    assert reference() is None
    assert names.scripted() == {}
