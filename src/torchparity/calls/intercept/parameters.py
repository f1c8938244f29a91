"""Sees the gradients of a module's parameters as autograd accumulates them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from torchparity.calls.audience import Attention
from torchparity.calls.dispatcher import Dispatcher
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
        self._modules: dict[tuple[int, str], weakref.ref[nn.Module]] = {}
        self._lazy: dict[int, str] = {}  # modules whose parameters are made by their first call
        self._events: dict[str, dict[str, int]] = {}
        self.only_called = False  # gradients of modules that were not called in this step do not matter

    def hook(self, module: nn.Module, name: str) -> None:
        """Hook the parameters of a module that are not hooked yet.

        They may be frozen when the step begins, or another tensor later; a lazy module has them after its first call.
        """
        hooked = self._hooked.setdefault((id(module), name), {})
        self._modules[id(module), name] = weakref.ref(module)
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
        for key, hooked_by_name in self._hooked.items():
            module = self._modules[key]()
            for parameter_name, several in hooked_by_name.items():
                parameter = None if module is None else module._parameters.get(parameter_name)
                for hooked in several:
                    hooked.take_off(parameter if parameter is not None and hooked.is_of(parameter) else None)
        if self._hooked:
            self._taken_off, self._hooked = self._hooked, {}
        self._modules.clear()
        self._lazy.clear()

    @contextmanager
    def off(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        """Keep our hooks off some tensors meanwhile; say which could not be put back on."""
        every = {name: chain.from_iterable(hooked.values()) for (_, name), hooked in self._hooked.items()}
        pairs = [(name, hooked, tensor) for name, all_of in every.items() for hooked in all_of for tensor in tensors]
        ours = [(name, hooked, tensor) for name, hooked, tensor in pairs if hooked.is_of(tensor)]
        for _, hooked, tensor in ours:
            hooked.take_off(tensor)
        try:
            yield
        finally:
            for name, hooked, tensor in ours:
                if tensor._post_accumulate_grad_hooks is not None:  # torch calls none of a table that was there before
                    self._dispatcher.boundary.failures.note(name, SwappedParameterError())
                hooked.put_on(tensor)

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
        events = self._events.setdefault(name, {})
        event = events.get(parameter_name, 0)
        events[parameter_name] = event + 1
        if self._dispatcher.attention is not Attention.COUNTING:  # else it is that of some other token
            self._dispatcher.parameter_gradient(name, parameter_name, event, leaf.grad, only_called=self.only_called)
