"""Sees the gradients of a module's parameters as autograd accumulates them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from torchparity.calls.audience import Attention
from torchparity.calls.dispatcher import Dispatcher
from torchparity.calls.guard.inert_hooks import Hook, HookedParameter, remove_empty_table


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
        self._modules: dict[int, weakref.ref[nn.Module]] = {}  # of all steps
        self._threads: set[int] = set()  # in which gradients were accumulated
        self._lazy: dict[int, str] = {}  # modules whose parameters are made by their first call
        self._events: dict[str, dict[str, int]] = {}
        self.only_called = False  # gradients of modules that were not called in this step do not matter

    def hook(self, module: nn.Module, name: str) -> None:
        """Hook the parameters of a module that are not hooked yet.

        They may be frozen when the step begins, or another tensor later; a lazy module has them after its first call.
        """
        hooked = self._hooked.setdefault((id(module), name), {})
        self._modules[id(module)] = weakref.ref(module)
        before = self._taken_off.get((id(module), name), {})
        for parameter_name, parameter in module._parameters.items():
            if parameter is None:
                continue
            handles = hooked.setdefault(parameter_name, [])  # several take turns under functional_call
            if any(handle.is_of(parameter) for handle in handles):
                continue
            is_unmade: bool = is_lazy(parameter)
            if is_unmade:
                self._lazy[id(module)] = name
            elif parameter.requires_grad and parameter.is_leaf:
                handles.append(self._hook(parameter, name, parameter_name, before.get(parameter_name, ())))

    def hook_again(self, module: nn.Module, name: str) -> None:
        """Hook what a module that is hooked already has got since."""
        if (id(module), name) in self._hooked:
            self.hook(module, name)

    def hook_if_lazy(self, module: nn.Module) -> None:
        """Hook the parameters that a lazy module's call has just made."""
        if id(module) in self._lazy:
            self.hook(module, self._lazy.pop(id(module)))

    def remove(self) -> None:
        """Take our hooks off; the tables that were made for them stay until `remove_tables`."""
        for of_module in self._hooked.values():
            for hooked in chain.from_iterable(of_module.values()):
                hooked.take_off()
        if self._hooked:
            self._taken_off, self._hooked = self._hooked, {}
        self._lazy.clear()

    def remove_tables(self) -> None:
        """Leave parameters as they were before the recording, unless several threads train them."""
        modules = [module for reference in self._modules.values() if (module := reference()) is not None]
        for parameter in chain.from_iterable(module._parameters.values() for module in modules):
            if parameter is not None and len(self._threads) < 2:
                remove_empty_table(parameter)
        self._modules.clear()

    def hooks_on(self, tensors: Sequence[torch.Tensor]) -> Iterator[tuple[str, HookedParameter, torch.Tensor]]:
        """Yield our hooks on some tensors, with the names of their modules."""
        for (_, name), of_module in self._hooked.items():
            for hooked in chain.from_iterable(of_module.values()):
                yield from ((name, hooked, tensor) for tensor in tensors if hooked.is_of(tensor))

    def note_swapped(self, name: str) -> None:
        """Note that a parameter of a module has lost all hooks, ours too."""
        self._dispatcher.boundary.failures.note(name, SwappedParameterError())

    def begin_step(self) -> None:
        self._events.clear()

    def _hook(
        self, parameter: nn.Parameter, name: str, parameter_name: str, before: Sequence[HookedParameter]
    ) -> HookedParameter:
        for hooked in before:
            if hooked.is_of(parameter):
                hooked.put_on(parameter)
                return hooked
        return HookedParameter(parameter, self._accumulated(name, parameter_name))

    def _accumulated(self, name: str, parameter_name: str) -> Hook:
        def accumulated(leaf: torch.Tensor) -> None:
            self._dispatcher.boundary.run(name, self._tell, name, parameter_name, leaf)

        return Hook(accumulated)

    def _tell(self, name: str, parameter_name: str, leaf: Any) -> None:
        self._threads.add(threading.get_ident())
        events = self._events.setdefault(name, {})
        event = events.get(parameter_name, 0)
        events[parameter_name] = event + 1
        if self._dispatcher.attention is not Attention.COUNTING:  # else it is that of some other token
            self._dispatcher.parameter_gradient(name, parameter_name, event, leaf.grad, only_called=self.only_called)
