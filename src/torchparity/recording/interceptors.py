"""Everything that sees calls, switched on and off together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from torchparity.calls.bypass.compiled import CompiledRegions
from torchparity.calls.bypass.cuda_graphs import GraphWatcher
from torchparity.calls.bypass.fast_paths import FastPaths
from torchparity.calls.bypass.scripting import ScriptingGuard
from torchparity.calls.guard.mode_stack import put_below, take_off
from torchparity.calls.guard.nesting import Covered
from torchparity.calls.intercept.apis import ApiWatcher
from torchparity.calls.intercept.collectives import CollectiveWatcher
from torchparity.calls.intercept.custom import CustomApis
from torchparity.calls.intercept.modules import ModuleWatcher
from torchparity.ops.catalog import ApiTable
from torchparity.recording.step.recorder import Recorder


class Watching:
    """APIs, modules, collectives, the user's own functions and optimizers, as the level asks."""

    def __init__(self, recorder: Recorder, apis: ApiTable, level: str) -> None:
        self._recorder, self._level = recorder, level
        covered = Covered()
        self._has_apis = level in ("L1", "mix")
        self._apis = ApiWatcher(recorder, apis, records=self._has_apis)
        self._modules = ModuleWatcher(recorder, covered, records=level in ("L0", "mix"), mode=self._apis)
        self._single = ModuleWatcher(recorder, covered, records=True, mode=self._apis)
        self._collectives = CollectiveWatcher(recorder, covered, self._apis, records=self._has_apis)
        self.custom = CustomApis(recorder, self._apis, covered)
        self._fast_paths = FastPaths(self._apis)
        self.compiled = CompiledRegions(recorder, self._apis, covered, self._fast_paths, self._modules.name_of)
        self.graphs = GraphWatcher(recorder)
        self._scripting = ScriptingGuard()
        self._optimizer_hooks: list[Any] = []

    def on(self, model: nn.Module | Sequence[nn.Module] | None) -> None:
        if self._level == "debug":
            return
        if model is not None:
            self._modules.attach(model)
            self._scripting.attach()
        put_below(self._apis)
        self._collectives.attach()
        self._see_apis()
        self._recorder.boundary.run(
            "start", self._recorder.measurements.invalidate_all
        )  # nobody saw what was done since stop
        self.compiled.attach()
        self.graphs.attach()
        self._fast_paths.attach()
        self._optimizer_hooks = [
            register_optimizer_step_pre_hook(self._enter_optimizer),
            register_optimizer_step_post_hook(self._leave_optimizer),
        ]

    def off(self) -> None:
        """See no more calls; gradients of what was seen still arrive until `end_step`."""
        if self._level == "debug":
            return
        for hook in self._optimizer_hooks:
            hook.remove()
        self._optimizer_hooks.clear()
        self._recorder.boundary.run("stop", self._modules.drop_interrupted, sys._getframe())
        self.compiled.detach()
        self.graphs.detach()
        self._fast_paths.detach()
        self._recorder.parents.clear()
        take_off(self._apis)
        self._collectives.detach()
        self.custom.detach()
        self._pass_over_apis()
        self._modules.is_paused = False
        self._single.detach_calls()

    def sentences(self) -> list[str]:
        """Return what was passed over as a whole."""
        return [*self.compiled.sentences(), *self.graphs.sentences(), *self._modules.sentences()]

    def end_step(self) -> None:
        take_off(self._apis)  # where `off` came from within a call, torch has put it back since
        self._scripting.detach()
        for modules in (self._modules, self._single):
            modules.detach()
            modules.begin_step()

    def only(self, module: nn.Module, name: str) -> None:
        """See the calls of one module and nothing else, not even what is inside it."""
        counted = f"Module.{name}.{type(module).__name__}"
        self._pass_over_apis()
        self._modules.pause(besides=counted)
        self._scripting.attach()
        self._single.attach_one(module, counted, has_gradients=not self._modules.records_as(module, counted))

    def everything_again(self) -> None:
        """End `only`; without one before nothing happens."""
        if self._modules.is_paused:
            self._modules.is_paused = False
            self._single.detach_calls()
            self._recorder.boundary.run("module_dump_end", self._recorder.measurements.invalidate_all)
            self._see_apis()

    def _see_apis(self) -> None:
        if self._has_apis:
            self._apis.records = self._collectives.records = True
            self.custom.attach()

    def _pass_over_apis(self) -> None:
        self._apis.records = self._collectives.records = False

    def _enter_optimizer(self, *_: Any) -> None:
        frame = sys._getframe(1)
        self._recorder.boundary.run("optimizer", self._recorder.enter_optimizer, frame)

    def _leave_optimizer(self, optimizer: Any, *_: Any) -> None:
        self._recorder.boundary.run("optimizer", self._recorder.leave_optimizer)
        if not self._has_apis or not type(optimizer).__module__.startswith("torch.optim."):
            # Nobody looked at each call; and kernels of others write parameters below torch's version counters.
            self._recorder.boundary.run("optimizer", self._recorder.measurements.invalidate_all)
