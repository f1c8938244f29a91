"""Sees every module's call through forward hooks, and keeps the stack of open modules."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from torch import nn

from torchparity.calls.arguments import Flat
from torchparity.calls.audience import Attention, Audience
from torchparity.calls.call import Call
from torchparity.calls.dispatcher import Dispatcher
from torchparity.calls.guard.boundary import guarded
from torchparity.calls.guard.frames import Place, Stack
from torchparity.calls.guard.inert_hooks import Hook, HookedModule
from torchparity.calls.intercept.apis import ApiMode
from torchparity.calls.intercept.brought_modes import BroughtModes
from torchparity.calls.intercept.module_names import ModuleNames, Named, WeakModels, named_modules, takes_hooks
from torchparity.calls.intercept.parameters import ParameterHooks
from torchparity.calls.listener import Interest
from torchparity.ops import Effect, Kind, Op


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


class _Thread(threading.local):
    """The modules that one thread is inside of."""

    def __init__(self) -> None:
        self.open: list[_Open] = []


class ModuleInterceptor:
    """Hooks the modules of one or several models between `attach` and `detach`.

    All listeners are told of the calls where `is_heard` is set, else those that are interested in
    modules. The stack of open modules gives each call its parents; where no listener reads them only
    the models themselves are hooked. While it is paused no module is entered. A thread has the `mode`
    that sees APIs only where it was put on its stack; in other threads than the one that attached, the
    outermost module brings it along.
    """

    def __init__(self, dispatcher: Dispatcher, mode: ApiMode, *, is_heard: bool = False) -> None:
        self._dispatcher, self._is_heard = dispatcher, is_heard
        self._thread, self._attached_in = _Thread(), 0
        self.is_paused = False
        self._counted_elsewhere = ""
        self._names = ModuleNames()
        self._attached: list[WeakModels] = []  # in this step
        self._has_entered = False  # a module, in this step
        self._audiences: dict[str, Audience] = {}
        self._hooked: list[HookedModule] = []
        self._taken_off: dict[tuple[int, str], HookedModule] = {}  # by module and name: those of the step before
        self._brought = BroughtModes(mode)
        self.parameters = ParameterHooks(dispatcher)

    def attach(self, models: nn.Module | Sequence[nn.Module]) -> None:
        """Hook every module, or the outermost; those that are hooked already stay as they are."""
        self._attached_in = threading.get_ident()
        self._attached.append(WeakModels(models))
        self._attach(models)

    def _attach(self, models: nn.Module | Sequence[nn.Module]) -> None:
        outermost = {id(model) for model in ([models] if isinstance(models, nn.Module) else models)}
        needs_parents = self._dispatcher.needs_parents
        for module, name in self._names.add_all(models):
            if needs_parents or id(module) in outermost:
                self._hook(module, name)

    def _attach_again(self) -> None:
        """Hook anew what the user has changed in the models since the step began, which is before its first batch."""
        attached = [models for weak in self._attached if (models := weak.get()) is not None]
        if not attached:
            return
        named: dict[int, Named] = {}
        for models in attached:
            for module, name in named_modules(models):
                if takes_hooks(module):
                    named.setdefault(id(module), (module, name))
        are_named = all(self._names.of(module) == name for module, name in named.values())
        if not are_named or not all(hooked.is_on() for hooked in self._hooked):
            self.detach_calls()
            self.parameters.remove()
            self._names.forget()
            for models in attached:
                self._attach(models)

    def sentences(self) -> list[str]:
        scripted = self._names.scripted
        outermost = [name for name in scripted if name.rpartition(".")[0] not in scripted]
        return [f"{name} is scripted or traced and was skipped." for name in outermost]

    def attach_one(self, module: nn.Module, name: str, *, has_gradients: bool) -> None:
        """Hook one module alone, under a name of its own; its parameters too where `has_gradients`."""
        if self._names.of(module) != name or not self._hooked:
            self._names.add(module, name)
            self._hook(module, name, has_gradients=has_gradients)

    def hears_as(self, module: nn.Module, name: str) -> bool:
        """Tell whether somebody is told of a module's calls under this name."""
        return self._names.of(module) == name and bool(self._audience(name).listeners)

    def name_of(self, module: nn.Module) -> str | None:
        """Return the name of a module of the models, None for another."""
        return self._names.of(module)

    def hooked(self) -> Iterator[nn.Module]:
        """Return the modules that are hooked."""
        modules = (hooked.reference() for hooked in self._hooked)
        return (module for module in modules if module is not None)

    def detach_calls(self) -> None:
        """Unhook calls; gradients of parameters still arrive."""
        for hooked in self._hooked:
            self._brought.take_off_hooks(hooked)
        if self._hooked:
            self._taken_off = {(id(hooked.reference()), hooked.name): hooked for hooked in self._hooked}
            self._hooked = []

    def detach(self) -> None:
        self.detach_calls()
        self.parameters.remove()
        self._names.forget()
        self._attached.clear()
        self._has_entered = False

    def begin_step(self) -> None:
        self.parameters.begin_step()
        self.parameters.only_called = self.is_paused
        if not self.is_paused:
            self._counted_elsewhere = ""

    def pause(self, *, besides: str) -> None:
        """Enter no module until `is_paused` is off again; calls under one name are counted by somebody else."""
        self.is_paused = self.parameters.only_called = True
        self._counted_elsewhere = besides

    def _hook(self, module: nn.Module, name: str, *, has_gradients: bool = True) -> None:
        hooked = self._taken_off.pop((id(module), name), None)
        if hooked is None or hooked.reference() is not module:
            hooked = self._hooks(weakref.ref(module), name)
        hooked.put_on(module)
        self._brought.note_hooked(module)
        self._hooked.append(hooked)
        if self._audience(name).listeners and has_gradients:
            self.parameters.hook(module, name)

    def _hooks(self, reference: weakref.ref[nn.Module], name: str) -> HookedModule:
        dispatcher = self._dispatcher
        audience = self._audience(name)

        # Who fuses modules hands their hooks to another one, and not that they take keywords.
        def entered(called: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
            if called is reference():
                frame = sys._getframe(2)
                call = dispatcher.boundary.run(name, self._enter, called, audience, args, kwargs or {}, frame)
                if call is not None:
                    dispatcher.start_clock(call)

        def left(called: nn.Module, *arguments: Any) -> Any:
            if called is reference():
                return self._leave(called, name, arguments[-1], sys.exc_info()[1], sys._getframe(2))
            return None

        return HookedModule(reference, name, Hook(entered), Hook(left))

    def _audience(self, name: str) -> Audience:
        audience = self._audiences.get(name)
        if audience is None:
            op, dispatcher = Op(name, Kind.MODULE, Effect.WRITES), self._dispatcher
            is_heard = self._is_heard
            audience = Audience(op, Interest.CALLS, dispatcher.listeners) if is_heard else dispatcher.audience(op)
            self._audiences[name] = audience
        return audience

    def _enter(
        self, module: nn.Module, audience: Audience, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType
    ) -> Call | None:
        dispatcher, nesting, name = self._dispatcher, self._dispatcher.nesting, audience.op.name
        is_counted_elsewhere = self.is_paused and name == self._counted_elsewhere
        if nesting.is_in_compiled or dispatcher.attention is Attention.OFF or is_counted_elsewhere:
            return None
        number, mark = dispatcher.number(name)
        if self.is_paused or dispatcher.attention is Attention.COUNTING:
            return None
        stack = Stack(frame)
        self._close_interrupted(stack)
        if nesting.is_in_optimizer:
            dispatcher.memory.wrote_unseen(name)  # its closure calls us, after it may have written
        parents = tuple(nesting.parents)
        # First of all: whatever fails below, the module is open, and `_leave` will come.
        opened = self._open(module, f"{name}.forward.{number}{mark}", stack, frame)
        if not self._has_entered and dispatcher.needs_parents:
            self._has_entered = True
            guarded(dispatcher.boundary.failures, name, self._attach_again)
        if not audience.listeners:
            return None
        call = opened.call = Call(
            audience.op,
            opened.record,
            dispatcher.step,
            parents,
            Flat(args, kwargs),
            module=module,  # and no frame: one that is kept while it runs would be part of a cycle
            module_name=name,
            is_recompute=bool(mark),
            writes=True,
        )
        dispatcher.begin(call, audience.listeners)
        if any(state is not None for state in call.states):
            self.parameters.hook_again(module, name)
        return call

    def _open(self, module: nn.Module, record: str, stack: Stack, frame: FrameType) -> _Open:
        opened = _Open(module, record, stack.innermost())
        if not self._thread.open and threading.get_ident() != self._attached_in:
            opened.brought_mode = self._brought.bring(module)
        self._thread.open.append(opened)
        self._dispatcher.nesting.enter_module(record, frame.f_code)
        return opened

    def _leave(self, module: nn.Module, name: str, output: Any, error: BaseException | None, frame: FrameType) -> Any:
        """Close a module; return what replaces its output, None where nothing does."""
        call: Call | None = self._dispatcher.boundary.run(name, self._close_and_tell, module, output, error, frame)
        if call is None:
            return None
        replaced = self._dispatcher.end(call, output)
        return None if replaced is output else replaced

    def _close_and_tell(
        self, module: nn.Module, output: Any, error: BaseException | None, frame: FrameType
    ) -> Call | None:
        """Close a module and tell how its call ended; return the call where that is still to do, outside."""
        opened = self._close(module)
        call = None if opened is None else opened.call
        if opened is None or call is None:
            return None
        if output is None and error is not None and error is not opened.error_before:
            self._dispatcher.fail(call, error)
            return None
        call.frame = frame
        if self._dispatcher.replaces_outputs:
            return call
        self._dispatcher.end_inside(call, output)
        return None

    def _close(self, module: nn.Module) -> _Open | None:
        """Close a module and those inside of it, which did not return; None where it was entered unseen."""
        if not any(opened.module is module for opened in self._thread.open):
            return None
        while (opened := self._close_innermost()).module is not module:
            self._give_up(opened)
        self.parameters.hook_if_lazy(module)
        return opened

    def close_interrupted(self, frame: FrameType) -> None:
        """Close modules of this thread that are open no more although nobody said so."""
        self._close_interrupted(Stack(frame))

    def _close_interrupted(self, stack: Stack) -> None:
        while self._thread.open and not stack.is_inside(self._thread.open[-1].place):
            self._give_up(self._close_innermost())
        self._dispatcher.nesting.leave_ended_optimizers(stack)

    def _give_up(self, opened: _Open) -> None:
        if opened.call is not None and opened.call.step == self._dispatcher.step:
            self._dispatcher.fail(opened.call, NeverLeftError())

    def _close_innermost(self) -> _Open:
        opened = self._thread.open.pop()
        if opened.brought_mode:
            self._brought.take_back(opened.module)
        self._dispatcher.nesting.leave_module(opened.record)
        return opened
