"""Sees every module's call through forward hooks, and parameter gradients as they are accumulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from torchparity.capture._drafts import Draft
from torchparity.capture._recorder import Call, Recorder


class ModuleWatcher:
    """Hooks the modules of one or several models between `attach` and `detach`.

    Keeps the stack of open modules, which gives each record its parent. With `records`
    off only the stack is kept.
    """

    def __init__(self, recorder: Recorder, *, records: bool, gradients: bool) -> None:
        self._recorder, self._records, self._gradients = recorder, records, gradients
        self._handles: list[Any] = []
        self._numbers: dict[str, int] = {}
        self._events: dict[str, dict[str, int]] = {}
        self._open: list[tuple[nn.Module, Call | None, str]] = []
        self._drafts: dict[str, Draft] = {}

    def attach(self, models: nn.Module | Sequence[nn.Module]) -> None:
        several = not isinstance(models, nn.Module)
        seen: set[int] = set()
        for index, model in enumerate([models] if isinstance(models, nn.Module) else models):
            for path, module in model.named_modules():
                if id(module) not in seen and not isinstance(module, torch.jit.ScriptModule):
                    seen.add(id(module))
                    parts = ["Module", str(index) if several else "", path, type(module).__name__]
                    self._hook(module, ".".join(part for part in parts if part))

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._open.clear()
        self._recorder.parents.clear()

    def begin_step(self) -> None:
        self._numbers.clear()
        self._events.clear()
        self._drafts.clear()

    def _hook(self, module: nn.Module, name: str) -> None:
        def entered(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._recorder.boundary.run(name, lambda: self._enter(module, name, args, kwargs))

        def left(_: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            self._recorder.boundary.run(name, lambda: self._leave(module, output))

        self._handles.append(module.register_forward_pre_hook(entered, with_kwargs=True, prepend=True))
        self._handles.append(module.register_forward_hook(left, with_kwargs=True, always_call=True))
        if self._records and self._gradients:
            for parameter_name, parameter in module._parameters.items():
                if parameter is not None and parameter.requires_grad and parameter.is_leaf:
                    self._hook_parameter(name, parameter_name, parameter)

    def _enter(self, module: nn.Module, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recomputed = int(torch._C._current_graph_task_id()) != -1 and torch.is_grad_enabled()
        counted = f"{name}#recompute" if recomputed else name
        number = self._numbers.get(counted, 0)
        self._numbers[counted] = number + 1
        record = f"{name}.forward.{number}{'#recompute' if recomputed else ''}"
        parent = self._recorder.parents[-1] if self._recorder.parents else None
        call = None
        if self._records and self._recorder.selection.takes_call(record, self._recorder.parents):
            call = self._recorder.open(Draft(record, "forward"), args, kwargs, parent)
            call.draft.is_recompute = recomputed
            call.draft.parameters = {
                key: self._recorder.observer.nest(value)
                for key, value in module._parameters.items()
                if value is not None
            }
            call.mutated = None
        self._open.append((module, call, record))
        self._recorder.parents.append(record)

    def _leave(self, module: nn.Module, output: Any) -> None:
        # Modules inside that raised are still open; they did not return.
        while self._open:
            opened, call, _ = self._open.pop()
            self._recorder.parents.pop()
            if opened is module:
                if call is not None:
                    self._recorder.end(call, output)
                return

    def _hook_parameter(self, name: str, parameter_name: str, parameter: nn.Parameter) -> None:
        def accumulated(leaf: torch.Tensor) -> None:
            self._recorder.boundary.run(name, lambda: self._take_gradient(name, parameter_name, leaf))

        handle = parameter.register_post_accumulate_grad_hook(accumulated)  # type: ignore[no-untyped-call]
        self._handles.append(handle)

    def _take_gradient(self, name: str, parameter_name: str, leaf: torch.Tensor) -> None:
        if not self._recorder.is_recording or not self._recorder.selection.takes_direction("backward"):
            return
        events = self._events.setdefault(name, {})
        event = events.get(parameter_name, 0)
        events[parameter_name] = event + 1
        record = f"{name}.parameters_grad.{event}"
        draft = self._drafts.get(record)
        if draft is None:
            draft = self._drafts[record] = Draft(record, "parameters_grad")
            self._recorder.add(draft, None)
        if leaf.grad is not None:
            draft.gradients[parameter_name] = self._recorder.meter.see(leaf.grad)
