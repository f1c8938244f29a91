"""The modules and optimizers that a script has made and that still live: who is inside whom, and who is trained."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from torchparity.calls import Patches


class MadeObjects:
    """Notes modules as they are made, copied or loaded, until `detach`; keeps none of them alive."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._modules: dict[int, weakref.ref[nn.Module]] = {}  # in the order in which they were made
        self._optimizers: dict[int, weakref.ref[Optimizer]] = {}
        self._ever = 0
        self._trained: tuple[object, frozenset[int]] = (None, frozenset())

    def attach(self) -> None:
        for entrance in ("__init__", "__setstate__"):  # copies and loaded modules come through the second
            self._patches.put(nn.Module, entrance, self._noting)

    def detach(self) -> None:
        self._patches.end()

    def see_optimizer(self, optimizer: Optimizer) -> bool:
        """Note an optimizer; tell whether it is a new one."""
        is_new = id(optimizer) not in self._optimizers
        _note(optimizer, self._optimizers)
        return is_new

    @property
    def has_optimizers(self) -> bool:
        return bool(self._optimizers)

    def optimized(self) -> list[torch.Tensor]:
        """Return the tensors that optimizers hold, in their order."""
        return [tensor for optimizer in _living(self._optimizers) for tensor in _tensors_of(optimizer)]

    def trained_modules(self) -> frozenset[int]:
        """Return the identities of the modules that have a tensor of an optimizer as their own."""
        groups = [len(group["params"]) for each in _living(self._optimizers) for group in each.param_groups]
        state = (self._ever, *self._optimizers, *groups)
        if self._trained[0] != state:
            self._trained = state, frozenset(id(each) for each in self._owners(self.optimized()))
        return self._trained[1]

    def trained_by(self, optimizer: Optimizer) -> frozenset[int]:
        """Return the identities of the modules that have a tensor of this optimizer as their own."""
        return frozenset(id(each) for each in self._owners(_tensors_of(optimizer)))

    def is_called_by_forward(self, optimizer: Optimizer) -> bool:
        """Tell whether an optimizer trains modules that can be called; a ParameterDict cannot."""
        owners = self._owners(_tensors_of(optimizer))
        if any(_has_forward(owner) for owner in owners):
            return True
        return any(_has_forward(each) for owner in owners for each in self._with_all_around(owner))

    def outermost(self, module: nn.Module) -> nn.Module:
        """Return the largest module around one: a LightningModule, say, calls its layers, and nobody calls it."""
        inside = {id(child) for each in _living(self._modules) for child in each.children()}
        outer = [each for each in self._with_all_around(module) if id(each) not in inside]
        return max(outer, key=lambda each: sum(1 for _ in each.modules()), default=module)

    def trained_models(self) -> list[nn.Module]:
        """Return the outermost modules around those that are trained, in the order in which these were made."""
        trained = self.trained_modules()
        owners = [each for each in _living(self._modules) if id(each) in trained]
        covered: set[int] = set()
        models = []
        for owner in owners:
            if id(owner) not in covered:
                models.append(self.outermost(owner))
                covered.update(id(each) for each in models[-1].modules())
        return models

    def _owners(self, tensors: Iterable[torch.Tensor]) -> list[nn.Module]:
        wanted = {id(tensor) for tensor in tensors}
        return [each for each in _living(self._modules) if _own_tensors(each) & wanted]

    def _with_all_around(self, module: nn.Module) -> list[nn.Module]:
        """Return a module and those that have it inside."""
        parents: dict[int, list[nn.Module]] = {}
        for each in _living(self._modules):
            for child in each.children():
                parents.setdefault(id(child), []).append(each)
        found = {id(module): module}
        new = [module]
        while new:
            new = [each for inner in new for each in parents.get(id(inner), []) if id(each) not in found]
            found.update((id(each), each) for each in new)
        return list(found.values())

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def made(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            result = original(module, *args, **kwargs)
            if not torch.compiler.is_compiling():
                _note(module, self._modules)
                self._ever += 1
            return result

        return made


def _note(made: Any, noted: dict[int, weakref.ref[Any]]) -> None:
    identity = id(made)
    if identity not in noted:
        noted[identity] = weakref.ref(made, lambda _: noted.pop(identity, None))


def _living(noted: dict[int, weakref.ref[Any]]) -> Iterator[Any]:
    return (each for reference in list(noted.values()) if (each := reference()) is not None)


def _tensors_of(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    return (tensor for group in optimizer.param_groups for tensor in group["params"])


def _own_tensors(module: nn.Module) -> set[int]:
    return {id(tensor) for tensor in module._parameters.values()}


def _has_forward(module: nn.Module) -> bool:
    return getattr(type(module).forward, "__name__", "") != "_forward_unimplemented"
