"""Sees the gradients of a module's parameters as autograd accumulates them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from torchparity.calls.audience import Attention
from torchparity.calls.dispatcher import Dispatcher
from torchparity.calls.guard.boundary import guarded
from torchparity.calls.guard.inert_hooks import Hook, HookedParameter


class SwappedParameterError(Exception):
    """A parameter with hooks of the user's was swapped: torch calls no hook of it from then on."""

    def __init__(self) -> None:
        super().__init__("a parameter was swapped for another, after which torch calls no hooks on its gradient")


class ParameterHooks:
    """Hooks parameters, each under the name of its module; numbers their gradients within a step."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._hooked: dict[tuple[int, str], dict[str, list[HookedParameter]]] = {}
        self._taken_off: dict[tuple[int, str], dict[str, list[HookedParameter]]] = {}  # those of the step before
        self._lazy: dict[int, str] = {}  # modules whose parameters are made by their first call
        self._events: dict[str, dict[str, int]] = {}
        self.only_called = False  # gradients of modules that were not called in this step do not matter

    def hook(self, module: nn.Module, name: str) -> None:
        """Hook the parameters of a module that are not hooked yet.

        They may be frozen when the step begins, or another tensor later; a lazy module has them after its first call.
        """
        hooked = self._hooked.setdefault((id(module), name), {})
        before = self._taken_off.get((id(module), name), {})
        failures = self._dispatcher.boundary.failures
        with torch._C.DisableTorchFunction():  # of a parameter of the user's own kind, which may refuse
            for parameter_name, parameter in list(module._parameters.items()):
                if parameter is None:
                    continue
                several = hooked.setdefault(parameter_name, [])  # they take turns under functional_call
                is_unmade: bool = is_lazy(parameter)
                if is_unmade:
                    self._lazy[id(module)] = name
                elif not any(each.is_of(parameter) for each in several) and parameter.requires_grad:
                    place = name, parameter_name
                    guarded(failures, name, self._hook, parameter, place, several, before.get(parameter_name, ()))

    def hook_again(self, module: nn.Module, name: str) -> None:
        """Hook what a module that is hooked already has got since."""
        if (id(module), name) in self._hooked:
            self.hook(module, name)

    def hook_if_lazy(self, module: nn.Module) -> None:
        """Hook the parameters that a lazy module's call has just made."""
        if id(module) in self._lazy:
            self.hook(module, self._lazy.pop(id(module)))

    def remove(self) -> None:
        """Take our hooks off."""
        hooked_before, self._hooked = self._hooked, {}
        for of_module in hooked_before.values():
            for hooked in chain.from_iterable(of_module.values()):
                hooked.take_off()
        self._taken_off = hooked_before or self._taken_off
        self._lazy.clear()

    def hooks_on(self, tensors: Sequence[torch.Tensor]) -> Iterator[tuple[str, HookedParameter, torch.Tensor]]:
        """Yield our hooks on some tensors, with the names of their modules."""
        by_identity = {id(tensor): tensor for tensor in tensors}
        for (_, name), of_module in self._hooked.items():
            for hooked in chain.from_iterable(of_module.values()):
                tensor = by_identity.get(hooked.identity)
                if tensor is not None and hooked.is_of(tensor):
                    yield name, hooked, tensor

    def note_swapped(self, name: str) -> None:
        """Note that a parameter of a module has lost all hooks, ours too."""
        self._dispatcher.boundary.failures.note(name, SwappedParameterError())

    def begin_step(self) -> None:
        self._events.clear()

    def _hook(
        self,
        parameter: nn.Parameter,
        place: tuple[str, str],
        several: list[HookedParameter],
        before: Sequence[HookedParameter],
    ) -> None:
        """Hook a parameter at a place, which is the names of its module and its own; add it to `several` there."""
        if not parameter.is_leaf:
            return
        for hooked in before:
            if hooked.is_of(parameter):
                hooked.put_on(parameter)
                several.append(hooked)
                return
        several.append(HookedParameter(parameter, self._accumulated(*place)))

    def _accumulated(self, name: str, parameter_name: str) -> Hook:
        def accumulated(leaf: torch.Tensor) -> None:
            self._dispatcher.boundary.run(name, self._tell, name, parameter_name, leaf)

        return Hook(accumulated)

    def _tell(self, name: str, parameter_name: str, leaf: Any) -> None:
        events = self._events.setdefault(name, {})
        event = events.get(parameter_name, 0)
        events[parameter_name] = event + 1
        if self._dispatcher.attention is not Attention.COUNTING:  # else it is that of some other token
            self._dispatcher.parameter_gradient(name, parameter_name, event, leaf.grad, only_called=self.only_called)
