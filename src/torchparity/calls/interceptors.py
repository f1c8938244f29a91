"""Everything that sees calls, attached and detached together."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from torchparity.calls.bypass.cleared_gradients import ClearedGradients
from torchparity.calls.bypass.compiled import CompiledRegions
from torchparity.calls.bypass.cuda_graphs import CudaGraphs
from torchparity.calls.bypass.fast_paths import FastPaths
from torchparity.calls.bypass.pickling import PicklingGuard
from torchparity.calls.bypass.scripting import ScriptingGuard
from torchparity.calls.bypass.swapping import SwappingGuard
from torchparity.calls.dispatcher import Dispatcher
from torchparity.calls.guard.mode_stack import put_below, take_off
from torchparity.calls.intercept.apis import ApiMode
from torchparity.calls.intercept.collectives import CollectiveInterceptor
from torchparity.calls.intercept.custom import CustomApis
from torchparity.calls.intercept.modules import ModuleInterceptor
from torchparity.calls.intercept.optimizers import OptimizerInterceptor


class Interceptors:
    """APIs, modules, collectives, the user's own functions and optimizers, for one dispatcher.

    `sees_apis` says whether anybody listens to calls of APIs; without it they are still
    watched for writes that no module shows.
    """

    def __init__(self, dispatcher: Dispatcher, *, sees_apis: bool) -> None:
        self._dispatcher, self._sees_apis = dispatcher, sees_apis
        self._apis = ApiMode(dispatcher)
        self._modules = ModuleInterceptor(dispatcher, self._apis)
        self._one_module = ModuleInterceptor(dispatcher, self._apis, is_heard=True)
        self._collectives = CollectiveInterceptor(dispatcher, self._apis)
        self._custom = CustomApis(dispatcher, self._apis)
        self._optimizers = OptimizerInterceptor(dispatcher, sees_calls=sees_apis)
        self._off_when_traced = (FastPaths(self._apis), ClearedGradients(self._apis))
        self._compiled = CompiledRegions(
            dispatcher, self._apis, self._off_when_traced, name_of=self._modules.name_of, hooked=self._hooked
        )
        self._cuda_graphs = CudaGraphs(dispatcher)
        self._guards = (ScriptingGuard(), PicklingGuard())  # against those who look at hooks
        self._swapping = SwappingGuard(dispatcher.boundary, self._modules.parameters, self._one_module.parameters)

    def attach(self, model: nn.Module | Sequence[nn.Module] | None) -> None:
        """See calls from here on."""
        if model is not None:
            self.attach_model(model)
        put_below(self._apis)
        self._collectives.attach()
        self._unmute_apis()
        # Nobody saw what was done since the last time.
        self._dispatcher.boundary.run("start", self._dispatcher.memory.wrote_unseen, "start")
        self._compiled.attach()
        self._cuda_graphs.attach()
        for patches in self._off_when_traced:
            patches.attach()
        self._optimizers.attach()
        self._compiled.enter_if_inside()  # last: it takes off what is on by now

    def attach_model(self, model: nn.Module | Sequence[nn.Module]) -> None:
        """See the calls of a model's modules."""
        self._modules.attach(model)
        self._guard_hooks()

    def detach(self) -> None:
        """See no more calls; gradients of those that were seen still arrive until `end_step`."""
        self._optimizers.detach()
        self._dispatcher.boundary.run("stop", self._modules.close_interrupted, sys._getframe())
        self._compiled.detach()
        self._cuda_graphs.detach()
        for patches in self._off_when_traced:
            patches.detach()
        self._dispatcher.nesting.leave_all()
        take_off(self._apis)
        self._collectives.detach()
        self._custom.detach()
        self._apis.is_muted = True
        self._modules.is_paused = False
        self._one_module.detach_calls()

    def end_step(self) -> None:
        take_off(self._apis)  # where `detach` came from within a call, torch has put it back since
        for guard in self._guards:
            guard.detach()
        for modules in (self._modules, self._one_module):
            modules.detach()
            modules.begin_step()

    def end(self) -> None:
        """See nothing more: the recording is over."""
        self.end_step()
        self._swapping.detach()

    def only(self, module: nn.Module, name: str) -> None:
        """See the calls of one module and nothing else, not even what is inside it."""
        counted_as = f"Module.{name}.{type(module).__name__}"
        self._apis.is_muted = True
        self._modules.pause(besides=counted_as)
        self._guard_hooks()
        has_gradients = not self._modules.hears_as(module, counted_as)
        self._one_module.attach_one(module, counted_as, has_gradients=has_gradients)

    def everything_again(self) -> None:
        """End `only`; without one before nothing happens."""
        if self._modules.is_paused:
            self._modules.is_paused = False
            self._one_module.detach_calls()
            self._dispatcher.boundary.run("module_dump_end", self._dispatcher.memory.wrote_unseen, "module_dump_end")
            self._unmute_apis()

    def register(self, owner: Any, api: str, prefix: str | None) -> None:
        """See the calls of a function of the user's."""
        self._custom.register(owner, api, prefix)

    def restore(self, owner: Any, api: str) -> None:
        self._custom.restore(owner, api)

    def registered_names(self) -> set[str]:
        return self._custom.names()

    def sentences(self) -> list[str]:
        """Return what was skipped as a whole."""
        return [*self._compiled.sentences(), *self._cuda_graphs.sentences(), *self._modules.sentences()]

    def _hooked(self) -> Iterator[nn.Module]:
        return itertools.chain(self._modules.hooked(), self._one_module.hooked())

    def _guard_hooks(self) -> None:
        for guard in (*self._guards, self._swapping):
            guard.attach()

    def _unmute_apis(self) -> None:
        self._apis.is_muted = not self._sees_apis
        if self._sees_apis:
            self._custom.attach()
