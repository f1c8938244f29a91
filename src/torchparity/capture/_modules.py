"""Sees every module's call through forward hooks, and parameter gradients as they are accumulated."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from torchparity.capture._covered import Covered
from torchparity.capture._drafts import Draft
from torchparity.capture._hooks import Hook
from torchparity.capture._mode_stack import is_on, put_below, take_off
from torchparity.capture._recorder import Call, Recorder
from torchparity.capture._watcher import ApiWatcher


class _Open:
    """A module that was entered and not yet left, by one thread."""

    __slots__ = ("brought_mode", "call", "error_before", "module")

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.brought_mode = False
        self.call: Call | None = None
        self.error_before = sys.exc_info()[1]


def named_modules(models: nn.Module | Sequence[nn.Module]) -> list[tuple[nn.Module, str]]:
    """Return what the calls of every module are counted under; a list of models puts its index first."""
    several = not isinstance(models, nn.Module)
    found: dict[int, tuple[nn.Module, str]] = {}
    for index, model in enumerate([models] if isinstance(models, nn.Module) else models):
        for path, module in model.named_modules():
            if not isinstance(module, torch.jit.ScriptModule):
                parts = ["Module", str(index) if several else "", path, type(module).__name__]
                found.setdefault(id(module), (module, ".".join(part for part in parts if part)))
    return list(found.values())


class ModuleWatcher:
    """Hooks the modules of one or several models between `attach` and `detach`.

    Keeps the stack of open modules, which gives each record its parent. With `records`
    off only the stack is kept. While `is_paused` no module is entered. A thread has the
    `mode` that sees APIs only where it was entered; in other threads than the one that
    attached, the outermost module brings it along.
    """

    def __init__(self, recorder: Recorder, covered: Covered, *, records: bool, mode: ApiWatcher) -> None:
        self._recorder, self._covered, self._records = recorder, covered, records
        self._mode, self._thread = mode, 0
        self.is_paused = self._was_paused = False
        self._counted_elsewhere = ""
        self._called: set[str] = set()  # in this step, and recorded
        self._names: dict[int, tuple[weakref.ref[nn.Module], str]] = {}
        self._handles: list[Any] = []
        self._gradient_handles: dict[tuple[int, str], dict[str, Any]] = {}
        self._lazy: dict[int, str] = {}  # modules whose parameters are made by their first call
        self._events: dict[str, dict[str, int]] = {}
        self._local = threading.local()
        self._drafts: dict[str, Draft] = {}

    def attach(self, models: nn.Module | Sequence[nn.Module]) -> None:
        """Hook every module; those that are hooked already stay as they are."""
        self._thread = threading.get_ident()
        for module, name in named_modules(models):
            if self.name_of(module) is None:
                self._names[id(module)] = weakref.ref(module), name
                self._hook(module, name)

    def attach_one(self, module: nn.Module, name: str, *, has_gradients: bool) -> None:
        """Hook one module alone, under a name of its own; its parameters too where `has_gradients`."""
        if self.name_of(module) != name or not self._handles:
            self._names[id(module)] = weakref.ref(module), name
            self._hook(module, name, has_gradients=has_gradients)

    def records_as(self, module: nn.Module, name: str) -> bool:
        """Tell whether a module is recorded under this name here."""
        return self._records and self.name_of(module) == name

    def name_of(self, module: nn.Module) -> str | None:
        known = self._names.get(id(module))
        return known[1] if known is not None and known[0]() is module else None

    def detach_calls(self) -> None:
        """Unhook calls; gradients of parameters still arrive."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def detach(self) -> None:
        self.detach_calls()
        for handles in self._gradient_handles.values():
            for handle in handles.values():
                handle.remove()
        self._gradient_handles.clear()
        self._lazy.clear()
        self._names.clear()

    def begin_step(self) -> None:
        self._events.clear()
        self._drafts.clear()
        self._called.clear()
        self._was_paused = self.is_paused
        if not self.is_paused:
            self._counted_elsewhere = ""

    def pause(self, *, besides: str) -> None:
        """Enter no module until `is_paused` is off again; calls under one name are counted by somebody else."""
        self.is_paused = self._was_paused = True
        self._counted_elsewhere = besides

    @property
    def _open(self) -> list[_Open]:
        found: list[_Open] | None = getattr(self._local, "open", None)
        if found is None:
            found = self._local.open = []
        return found

    def _hook(self, module: nn.Module, name: str, *, has_gradients: bool = True) -> None:
        boundary = self._recorder.boundary

        def entered(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            call = boundary.run(name, self._enter, module, name, args, kwargs)
            if call is not None:
                call.start_clock(boundary)

        def left(_: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            error = sys.exc_info()[1]
            boundary.run(name, self._leave, module, output, error)

        self._handles.append(module.register_forward_pre_hook(Hook(entered), with_kwargs=True, prepend=True))
        self._handles.append(module.register_forward_hook(Hook(left), with_kwargs=True, always_call=True))
        if self._records and has_gradients:
            self._hook_parameters(module, name)

    def _hook_parameters(self, module: nn.Module, name: str) -> None:
        """Hook the parameters of a module that are not hooked yet; a lazy module has them after its first call."""
        handles = self._gradient_handles.setdefault((id(module), name), {})
        for parameter_name, parameter in module._parameters.items():
            if parameter is None or parameter_name in handles:
                continue
            unmade: bool = is_lazy(parameter)
            if unmade:
                self._lazy[id(module)] = name
            elif parameter.requires_grad and parameter.is_leaf:
                handles[parameter_name] = self._hook_parameter(name, parameter_name, parameter)

    def _enter(self, module: nn.Module, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        recorder = self._recorder
        is_wanted = recorder.is_recording and not self.is_paused
        if self._covered.is_compiled or not (is_wanted or self.is_paused or recorder.is_waiting):
            return None
        if self.is_paused and name == self._counted_elsewhere:
            return None
        number, mark = recorder.count(name)
        if not is_wanted:
            return None
        record = f"{name}.forward.{number}{mark}"
        parents = recorder.parents
        parent, outside = parents[-1] if parents else None, list(parents)
        # First of all: whatever fails below, the module is open, and `_leave` will come.
        opened = _Open(module)
        if not self._open and threading.get_ident() != self._thread:
            opened.brought_mode = not is_on(self._mode)
            if opened.brought_mode:
                put_below(self._mode)
        self._open.append(opened)
        parents.append(record)
        if self._records and recorder.selection.takes_call(record, outside):
            self._called.add(name)
            call = recorder.open(Draft(record, "forward"), args, kwargs, parent)
            call.draft.is_recompute = bool(mark)
            call.draft.parameters = self._parameters_of(module, record)
            call.mutated = None
            recorder.meter.flush()
            opened.call = call
        return opened.call

    def _parameters_of(self, module: nn.Module, record: str) -> dict[str, Any]:
        made = {key: value for key, value in module._parameters.items() if value is not None and not is_lazy(value)}
        observer = self._recorder.observer_of(record)
        return {key: observer.nest(value) for key, value in made.items()}

    def _leave(self, module: nn.Module, output: Any, error: BaseException | None) -> None:
        stack = self._open
        if not any(opened.module is module for opened in stack):
            return  # entered before the recording began
        while stack:
            # Modules inside that raised are still open; they did not return.
            opened = stack.pop()
            if opened.brought_mode:
                take_off(self._mode)
            if self._recorder.parents:
                self._recorder.parents.pop()
            if opened.module is module:
                if opened.call is not None:
                    if id(module) in self._lazy:
                        self._hook_parameters(module, self._lazy.pop(id(module)))
                    self._end(opened, opened.call, output, error)
                return

    def _end(self, opened: _Open, call: Call, output: Any, error: BaseException | None) -> None:
        raised = output is None and error is not None and error is not opened.error_before
        if raised and error is not None:
            self._recorder.failed(call, error)
        else:
            self._recorder.end(call, output)

    def _hook_parameter(self, name: str, parameter_name: str, parameter: nn.Parameter) -> Any:
        def accumulated(leaf: torch.Tensor) -> None:
            self._recorder.boundary.run(name, self._take_gradient, name, parameter_name, leaf)

        return parameter.register_post_accumulate_grad_hook(Hook(accumulated))  # type: ignore[no-untyped-call]

    def _take_gradient(self, name: str, parameter_name: str, leaf: torch.Tensor) -> None:
        if not self._recorder.selection.takes_backwards:
            return
        events = self._events.setdefault(name, {})
        event = events.get(parameter_name, 0)
        events[parameter_name] = event + 1
        if self._recorder.is_waiting and not self._recorder.is_recording:
            return  # it is that of some other token
        record = f"{name}.parameters_grad.{event}"
        if not self._is_wanted(name, record):
            return
        draft = self._drafts.get(record)
        if draft is None:
            draft = self._drafts[record] = Draft(record, "parameters_grad")
            self._recorder.add(draft, None)
        if leaf.grad is not None:
            draft.gradients = draft.gradients or {}
            draft.gradients[parameter_name] = self._recorder.observer_of(record).nest(leaf.grad)
            self._recorder.has_more(draft)
            self._recorder.meter.flush()

    def _is_wanted(self, name: str, record: str) -> bool:
        """Decide about a gradient: it belongs to the module's calls. Some modules' weights are used without a call."""
        selection = self._recorder.selection
        is_called = name in self._called or name == self._counted_elsewhere
        return is_called or selection.names(record) or (selection.is_open and not self._was_paused)
