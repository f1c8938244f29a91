"""Names of a model's modules, under which their calls are counted."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import nn

Models = nn.Module | Sequence[nn.Module]
Named = tuple[nn.Module, str]


def named_modules(models: Models) -> list[Named]:
    """Return what the calls of every module are counted under; a list of models puts its index first."""
    return _named(_families(models))


def takes_hooks(module: nn.Module) -> bool:
    """Tell whether a module runs hooks of Python: one that was scripted or traced does not."""
    return not isinstance(module, torch.jit.ScriptModule)


class ModuleNames:
    """The names of modules that take hooks, looked up by the module; it keeps none of them alive.

    Looking through a model takes longer than to start a step, so where only the outermost modules are asked for the
    others are named when somebody asks for one.
    """

    def __init__(self) -> None:
        self._names: dict[int, tuple[weakref.ref[nn.Module], str]] = {}
        self._unnamed: list[tuple[weakref.ref[nn.Module], str]] = []  # models whose inner modules have no names yet
        self._scripted: dict[str, None] = {}

    def add_all(self, models: Models) -> list[Named]:
        """Name every module; return those that take hooks and had no name before."""
        return self._new(named_modules(models))

    def add_outermost(self, models: Models) -> list[Named]:
        """Name the models themselves; return those that take hooks and had no name before."""
        families = _families(models)
        if not self._names:  # else other models were added in this step
            self._unnamed = []
        self._unnamed += [(weakref.ref(model), family) for model, family in families]
        return self._new([(model, family + type(model).__name__) for model, family in families])

    def add(self, module: nn.Module, name: str) -> None:
        """Give a module a name of its own."""
        self._names[id(module)] = weakref.ref(module), name

    def of(self, module: nn.Module) -> str | None:
        """Return the name of a module, None where it has none."""
        if self._unnamed and self._names:
            unnamed, self._unnamed = self._unnamed, []
            self._new(_inside(unnamed))
        return self._name(module)

    def scripted(self) -> Mapping[str, None]:
        """Return the names of all scripted modules that were ever met, without their classes."""
        self._note_scripted(_inside(self._unnamed))
        return self._scripted

    def forget(self) -> None:
        """Forget all names; scripted modules are looked for in the same models still."""
        self._names.clear()

    def _new(self, named: Sequence[Named]) -> list[Named]:
        self._note_scripted(named)
        new = [(module, name) for module, name in named if takes_hooks(module) and self._name(module) is None]
        for module, name in new:
            self.add(module, name)
        return new

    def _note_scripted(self, named: Iterable[Named]) -> None:
        self._scripted.update((name.rpartition(".")[0], None) for module, name in named if not takes_hooks(module))

    def _name(self, module: nn.Module) -> str | None:
        reference, name = self._names.get(id(module), (None, ""))
        return name if reference is not None and reference() is module else None


def _families(models: Models) -> list[tuple[nn.Module, str]]:
    """Return each model with what the names of its modules begin with."""
    if isinstance(models, nn.Module):
        return [(models, "Module.")]
    return [(model, f"Module.{index}.") for index, model in enumerate(models)]


def _inside(families: Iterable[tuple[weakref.ref[nn.Module], str]]) -> list[Named]:
    """Return the named modules of models that are still there."""
    return _named([(model, family) for reference, family in families if (model := reference()) is not None])


def _named(families: Iterable[tuple[nn.Module, str]]) -> list[Named]:
    named: dict[int, Named] = {}
    for model, family in families:
        for path, module in model.named_modules():
            inside = f"{family}{path}." if path else family
            named.setdefault(id(module), (module, inside + type(module).__name__))
    return list(named.values())
