"""Names of a model's modules, under which their calls are counted."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch
from torch import nn

Models = nn.Module | Sequence[nn.Module]
Named = tuple[nn.Module, str]


def named_modules(models: Models) -> list[Named]:
    """Return what the calls of every module are counted under; a list of models puts its index first."""
    several = not isinstance(models, nn.Module)
    named: dict[int, Named] = {}
    for index, model in enumerate([models] if isinstance(models, nn.Module) else models):
        family = f"Module.{index}." if several else "Module."
        for path, module in model.named_modules():
            inside = f"{family}{path}." if path else family
            named.setdefault(id(module), (module, inside + type(module).__name__))
    return list(named.values())


def takes_hooks(module: nn.Module) -> bool:
    """Tell whether a module runs hooks of Python: one that was scripted or traced does not."""
    return not isinstance(module, torch.jit.ScriptModule)


class WeakModels:
    """A model or a list of models, which are not kept alive."""

    def __init__(self, models: Models) -> None:
        self._is_one = isinstance(models, nn.Module)
        self._references = [weakref.ref(model) for model in ([models] if isinstance(models, nn.Module) else models)]

    def get(self) -> Models | None:
        """Return the models; None where one is gone."""
        models = [reference() for reference in self._references]
        present = [model for model in models if model is not None]
        if len(present) < len(models):
            return None
        return present[0] if self._is_one else present


class ModuleNames:
    """The names of modules that take hooks, looked up by the module; it keeps none of them alive."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[weakref.ref[nn.Module], str]] = {}
        self.scripted: dict[str, None] = {}  # paths of all scripted modules that were ever met

    def add_all(self, models: Models) -> list[Named]:
        """Name every module; return those that take hooks and had no name before."""
        new: list[Named] = []
        for module, name in named_modules(models):
            if not takes_hooks(module):
                self.scripted.setdefault(name.rpartition(".")[0])
            elif self.of(module) is None:
                self.add(module, name)
                new.append((module, name))
        return new

    def add(self, module: nn.Module, name: str) -> None:
        """Name one module."""
        self._names[id(module)] = weakref.ref(module), name

    def of(self, module: nn.Module) -> str | None:
        """Return the name of a module, None where it has none."""
        reference, name = self._names.get(id(module), (None, ""))
        return name if reference is not None and reference() is module else None

    def forget(self) -> None:
        """Forget all names."""
        self._names.clear()
