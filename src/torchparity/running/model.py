"""The model of a script: the module that is trained, or the one whose name was given."""

from __future__ import annotations

import sys
import weakref
from enum import IntEnum
from operator import attrgetter
from typing import Any

from torch import nn
from torch.optim.optimizer import Optimizer

from torchparity.running.made_objects import MadeObjects

_MOST_NAMED = 8


class Evidence(IntEnum):
    """Reasons to take a module for the model, the weakest first."""

    NONE = 0
    CALLED = 1  # an inference, or a teacher that is called before the model
    WITH_GRADIENTS = 2
    TRAINED = 3  # by an optimizer, or the user says so


class ModelSearch:
    """Looks at the modules that are called until one is found that is trained."""

    def __init__(self, name: str | None, made: MadeObjects) -> None:
        self._name, self._made = name, made
        self._reference: weakref.ref[nn.Module] | None = None  # the script decides how long its model lives
        self.model_class = ""
        self._evidence = Evidence.NONE
        self._trained_now: frozenset[int] = frozenset()  # modules of an optimizer that was made later
        self._classes: dict[str, None] = {}

    @property
    def model(self) -> nn.Module | None:
        return None if self._reference is None else self._reference()

    @property
    def is_settled(self) -> bool:
        return self._evidence is Evidence.TRAINED

    @property
    def is_looking_again(self) -> bool:
        return bool(self._trained_now)

    def look_again(self, optimizer: Optimizer) -> bool:
        """Look for another model where an optimizer trains nothing of this one; tell whether that is so."""
        if not self.is_settled or self._name is not None:
            return False
        trained, model = self._made.trained_by(optimizer), self.model
        if not trained or (model is not None and any(id(each) in trained for each in model.modules())):
            return False
        self._trained_now, self._evidence = trained, Evidence.WITH_GRADIENTS
        return True

    def look(self, called: nn.Module, *, with_gradients: bool) -> bool:
        """Look at a module that is about to be called; tell whether the model, or a better one, is found."""
        if self._evidence >= self._best_evidence(with_gradients):
            return False
        evidence = self._evidence_of(called, with_gradients)
        if evidence <= self._evidence:
            return False
        model = self._made.outermost(called) if self._name is None else _named(self._name, called)
        if model is not None:
            self._reference, self.model_class = weakref.ref(model), type(model).__name__
            self._evidence, self._trained_now = evidence, frozenset()
        return model is not None

    def not_taken(self) -> list[str]:
        """Return the other models that the script trains, with the option that takes each."""
        model = self.model
        if model is None or self._name is not None:
            return []
        own = {id(each) for each in model.modules()}
        others = [each for each in self._made.trained_models() if not any(id(part) in own for part in each.modules())]
        return [_with_option(each, self.model_class) for each in others]

    def called_classes(self) -> list[str]:
        """Return the classes of the modules that were called, in place of a name that does not exist."""
        return list(self._classes)[:_MOST_NAMED]

    def _best_evidence(self, with_gradients: bool) -> Evidence:
        """Return the best that a call can be: most scripts make thousands, and this is asked for each."""
        if self._name is not None or self._made.has_optimizers:
            return Evidence.TRAINED
        return Evidence.WITH_GRADIENTS if with_gradients else Evidence.CALLED

    def _evidence_of(self, called: nn.Module, with_gradients: bool) -> Evidence:
        if next(called.parameters(), None) is None:
            return Evidence.NONE
        if self._name is not None:
            self._classes.setdefault(type(called).__name__)
            return Evidence.TRAINED
        if trained := self._trained_now or self._made.trained_modules():
            return Evidence.TRAINED if any(id(each) in trained for each in called.modules()) else Evidence.NONE
        if self._made.has_optimizers:  # of other tensors: an image, or copies of the model's parameters
            return Evidence.TRAINED if with_gradients else Evidence.NONE
        if with_gradients and any(each.requires_grad for each in called.parameters()):
            return Evidence.WITH_GRADIENTS
        return Evidence.CALLED


def _with_option(module: nn.Module, taken: str) -> str:
    """Return the class of a module, and --model with its variable or, where that says which, its class."""
    name = type(module).__name__
    variables = (each for each, held in vars(sys.modules["__main__"]).items() if held is module)
    option = next(variables, None if name == taken else name)
    return name if option is None else f"{name} (--model {option})"


def _named(name: str, called: nn.Module) -> nn.Module | None:
    """Return the module that a variable of the script holds, or `called` where its class has this name."""
    if type(called).__name__ == name:
        return called
    try:
        found: Any = attrgetter(name)(sys.modules["__main__"])
    except AttributeError:
        return None
    return found if isinstance(found, nn.Module) else None
