"""Sees every module's call through forward hooks, and parameter gradients as they are accumulated."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Sequence
from itertools import chain
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from torchparity.calls.guard.frames import Place, Stack
from torchparity.calls.guard.inert_hooks import Hook, HookedParameter
from torchparity.calls.guard.mode_stack import is_on, put_below, take_off
from torchparity.calls.guard.nesting import Covered
from torchparity.calls.intercept.apis import ApiWatcher
from torchparity.recording.step.drafts import Draft
from torchparity.recording.step.recorder import Call, Recorder


class NeverLeftError(Exception):
    """An interrupt ended a module; torch calls no hook then."""

    def __init__(self) -> None:
        super().__init__("it was interrupted")


class _Open:
    """A module that was entered and not yet left, by one thread."""

    __slots__ = ("brought_mode", "call", "error_before", "module", "place", "record")

    def __init__(self, module: nn.Module, record: str, place: Place) -> None:
        self.module, self.record, self.place = module, record, place
        self.brought_mode = False
        self.call: Call | None = None
        self.error_before = sys.exc_info()[1]


def named_modules(models: nn.Module | Sequence[nn.Module]) -> list[tuple[nn.Module, str]]:
    """Return what the calls of every module are counted under; a list of models puts its index first.

    Modules that were scripted or traced are left out: they take no hooks of Python.
    """
    return [(module, name) for module, name in _named(models) if not isinstance(module, torch.jit.ScriptModule)]


def _named(models: nn.Module | Sequence[nn.Module]) -> list[tuple[nn.Module, str]]:
    several = not isinstance(models, nn.Module)
    found: dict[int, tuple[nn.Module, str]] = {}
    for index, model in enumerate([models] if isinstance(models, nn.Module) else models):
        for path, module in model.named_modules():
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
        self._hooked: dict[tuple[int, str], dict[str, list[HookedParameter]]] = {}
        self._lazy: dict[int, str] = {}  # modules whose parameters are made by their first call
        self._events: dict[str, dict[str, int]] = {}
        self._scripted: dict[str, None] = {}
        self._local = threading.local()
        self._drafts: dict[str, Draft] = {}

    def attach(self, models: nn.Module | Sequence[nn.Module]) -> None:
        """Hook every module; those that are hooked already stay as they are."""
        self._thread = threading.get_ident()
        for module, name in _named(models):
            if isinstance(module, torch.jit.ScriptModule):
                self._scripted.setdefault(name.rpartition(".")[0])
            elif self.name_of(module) is None:
                self._names[id(module)] = weakref.ref(module), name
                self._hook(module, name)

    def sentences(self) -> list[str]:
        outermost = [name for name in self._scripted if name.rpartition(".")[0] not in self._scripted]
        return [f"{name} is scripted or traced and was passed over." for name in outermost]

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
        for hooked in self._hooked.values():
            for parameter in chain.from_iterable(hooked.values()):
                parameter.handle.remove()
        self._hooked.clear()
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

        # Who fuses modules hands their hooks to another one, and not that they take keywords.
        def entered(called: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
            if called is module:
                frame = sys._getframe(2)
                call = boundary.run(name, self._enter, module, name, args, kwargs or {}, frame)
                if call is not None:
                    call.start_clock(boundary)

        def left(called: nn.Module, *arguments: Any) -> None:
            if called is module:
                error, frame = sys.exc_info()[1], sys._getframe(2)
                boundary.run(name, self._leave, module, arguments[-1], error, frame)

        self._handles.append(module.register_forward_pre_hook(Hook(entered), with_kwargs=True, prepend=True))
        self._handles.append(module.register_forward_hook(Hook(left), with_kwargs=True, always_call=True))
        if self._records and has_gradients:
            self._hook_parameters(module, name)

    def _hook_parameters(self, module: nn.Module, name: str) -> None:
        """Hook the parameters of a module that are not hooked yet.

        They may be frozen when the step begins, or another tensor later; a lazy module has them after its first call.
        """
        hooked = self._hooked.setdefault((id(module), name), {})
        for parameter_name, parameter in module._parameters.items():
            if parameter is None:
                continue
            known = hooked.setdefault(parameter_name, [])  # several take turns under functional_call
            if any(each.is_of(parameter) for each in known):
                continue
            unmade: bool = is_lazy(parameter)
            if unmade:
                self._lazy[id(module)] = name
            elif parameter.requires_grad and parameter.is_leaf:
                known.append(HookedParameter(parameter, self._accumulated(name, parameter_name)))

    def _enter(
        self, module: nn.Module, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType
    ) -> Call | None:
        recorder = self._recorder
        is_wanted = recorder.is_recording and not self.is_paused
        if self._covered.is_compiled or not (is_wanted or self.is_paused or recorder.is_waiting):
            return None
        if self.is_paused and name == self._counted_elsewhere:
            return None
        number, mark = recorder.count(name)
        if not is_wanted:
            return None
        record, stack = f"{name}.forward.{number}{mark}", Stack(frame)
        self._drop_interrupted(stack)
        if recorder.is_in_optimizer:
            recorder.measurements.invalidate_all()  # what its closure calls may have been written by it
        parents = recorder.parents
        parent, outside = parents[-1] if parents else None, list(parents)
        # First of all: whatever fails below, the module is open, and `_leave` will come.
        opened = _Open(module, record, stack.innermost())
        recorder.module_code = frame.f_code
        if not self._open and threading.get_ident() != self._thread:
            opened.brought_mode = not is_on(self._mode)
            if opened.brought_mode:
                put_below(self._mode)
        self._open.append(opened)
        parents.append(record)
        if self._records and recorder.selection.takes_call(record, outside):
            self._called.add(name)
            if (id(module), name) in self._hooked:
                self._hook_parameters(module, name)
            call = recorder.open(Draft(record, "forward"), args, kwargs, parent)
            call.draft.is_recompute = bool(mark)
            call.draft.parameters = self._parameters_of(module, record)
            recorder.measurements.flush()
            opened.call = call
        return opened.call

    def drop_interrupted(self, frame: FrameType) -> None:
        """Close modules of this thread that are open no more although nobody said so."""
        self._drop_interrupted(Stack(frame))

    def _drop_interrupted(self, stack: Stack) -> None:
        while self._open and not stack.is_inside(self._open[-1].place):
            self._give_up(self._close_innermost())
        self._recorder.drop_ended_optimizers(stack)

    def _give_up(self, opened: _Open) -> None:
        if opened.call is not None and opened.call.generation == self._recorder.generation:
            self._recorder.failed(opened.call, NeverLeftError())

    def _close_innermost(self) -> _Open:
        opened = self._open.pop()
        if opened.brought_mode:
            take_off(self._mode)
        parents = self._recorder.parents
        if opened.record in parents:
            del parents[parents.index(opened.record) :]
        return opened

    def _parameters_of(self, module: nn.Module, record: str) -> dict[str, Any]:
        made = {key: value for key, value in module._parameters.items() if value is not None and not is_lazy(value)}
        observer = self._recorder.observer_of(record)
        return {key: observer.nest(value) for key, value in made.items()}

    def _leave(self, module: nn.Module, output: Any, error: BaseException | None, frame: FrameType) -> None:
        stack = self._open
        if not any(opened.module is module for opened in stack):
            return  # entered before the recording began
        while stack:
            # Modules inside that are still open did not return.
            opened = self._close_innermost()
            if opened.module is not module:
                self._give_up(opened)
            else:
                if opened.call is not None:
                    opened.call.frame = frame
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

    def _accumulated(self, name: str, parameter_name: str) -> Hook:
        def accumulated(leaf: torch.Tensor) -> None:
            self._recorder.boundary.run(name, self._take_gradient, name, parameter_name, leaf)

        return Hook(accumulated)

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
            self._recorder.measurements.flush()

    def _is_wanted(self, name: str, record: str) -> bool:
        """Decide about a gradient: it belongs to the module's calls. Some modules' weights are used without a call."""
        selection = self._recorder.selection
        is_called = name in self._called or name == self._counted_elsewhere
        return is_called or selection.names(record) or (selection.is_open and not self._was_paused)
