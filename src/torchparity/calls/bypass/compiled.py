"""Regions under torch.compile: skipped as a whole, each named once.

A compiled region is entered and left through `torch._dynamo.eval_frame._maybe_set_eval_frame`,
which is wrapped between start and stop. While the region runs our mode is off the stack and
our hooks are off its modules: the compiler neither sees them nor compiles again because of
them, and what the region runs uncompiled between its graphs is not recorded by halves.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any, Protocol

import torch
from torch import nn
from torch._C._dynamo.eval_frame import set_eval_frame
from torch.overrides import TorchFunctionMode

from torchparity.calls.audience import Attention
from torchparity.calls.dispatcher import Dispatcher
from torchparity.calls.guard.frames import who_calls
from torchparity.calls.guard.inert_hooks import HiddenHooks
from torchparity.calls.guard.mode_stack import put_back, take_off
from torchparity.calls.guard.patches import Patches

_log = logging.getLogger("torchparity")
_ENTRANCE = "_maybe_set_eval_frame"


class Switchable(Protocol):
    """Patches of torch's functions that the compiler would trace."""

    def attach(self) -> None: ...

    def detach(self) -> None: ...


class _Region(threading.local):
    """The compiled region this thread is in: the frame that entered it, where our mode was, and our hooks."""

    frame: int | None = None
    place: int | None = None
    hooks: HiddenHooks | None = None


class CompiledRegions:
    """Keeps us out of compiled regions while attached, and remembers what they were called."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        mode: TorchFunctionMode,
        off_when_traced: Sequence[Switchable],
        *,
        name_of: Callable[[nn.Module], str | None],
        hooked: Callable[[], Iterable[nn.Module]],
    ) -> None:
        self._dispatcher, self._mode = dispatcher, mode
        self._name_of, self._hooked = name_of, hooked
        self._off_when_traced = off_when_traced
        self._region = _Region()
        self._entrance, self._compile = Patches(), Patches()
        self._names: dict[str, None] = {}

    def sentences(self) -> list[str]:
        return [f"{name} is compiled and was skipped." for name in self._names]

    def attach(self) -> None:
        compiler = sys.modules.get("torch._dynamo.eval_frame")
        if compiler is not None:
            self._attach_to(compiler)
        elif not self._compile:  # loading the compiler takes seconds; whoever compiles will load it
            self._compile.put(torch, "compile", self._loading)

    def enter_if_inside(self) -> None:
        """Notice the region that this thread is in, where a recording begins within one."""
        if self._entrance and self._region.frame is None and (frame := _region_around(sys._getframe(1))):
            self._dispatcher.boundary.run("torch.compile", self._enter, frame)

    def detach(self) -> None:
        self._entrance.end()
        self._compile.end()
        if self._region.frame is not None:
            self._region.frame, self._dispatcher.nesting.is_in_compiled = None, False
            self._put_hooks_back()

    @property
    def _is_listening(self) -> bool:
        return self._dispatcher.attention is Attention.LISTENING

    def _attach_to(self, compiler: Any) -> None:
        if not self._entrance and hasattr(compiler, _ENTRANCE):
            self._entrance.put(compiler, _ENTRANCE, self._watched)

    def _loading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compile_and_watch(*args: Any, **kwargs: Any) -> Any:
            compiled = original(*args, **kwargs)
            compiler = sys.modules.get("torch._dynamo.eval_frame")
            if compiler is not None and self._is_listening:
                self._attach_to(compiler)
            return compiled

        return compile_and_watch

    def _watched(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def watched(callback: Any) -> Any:
            # With torch 2.6 a region ends while the compiler still listens: it would compile what we do here.
            before = set_eval_frame(None)
            try:
                self._cross(who_calls(), callback)
            finally:
                original(callback)
            return before

        torch._dynamo.eval_frame.skip_code(watched.__code__)
        return watched

    def _cross(self, frame: FrameType, callback: Any) -> None:
        """Notice that a region is entered or left."""
        if self._region.frame is None:
            if callable(callback) and self._is_listening and _is_wrapper(frame) and not _is_left(frame, callback):
                self._dispatcher.boundary.run("torch.compile", self._enter, frame)
        elif self._region.frame == id(frame):
            self._dispatcher.boundary.run("torch.compile", self._leave)

    def _enter(self, frame: FrameType) -> None:
        function = frame.f_locals.get("fn")
        owner = _owner(function)
        name = self._called(function, owner)
        self._region.frame, self._region.place = id(frame), take_off(self._mode)
        self._dispatcher.nesting.is_in_compiled = True
        for patches in self._off_when_traced:
            patches.detach()
        self._region.hooks = HiddenHooks(self._hooked() if owner is None else owner.modules())
        if name not in self._names:
            self._names[name] = None
            _log.warning("torchparity skips %s: it is compiled, so what it does inside is not recorded", name)

    def _leave(self) -> None:
        place, self._region.frame, self._region.place = self._region.place, None, None
        self._dispatcher.nesting.is_in_compiled = False
        self._put_hooks_back()
        self._dispatcher.memory.ran_unseen("torch.compile", only_backward=False)
        if self._is_listening:
            for patches in self._off_when_traced:
                patches.attach()
            if place is not None:
                put_back(self._mode, place)

    def _put_hooks_back(self) -> None:
        hooks, self._region.hooks = self._region.hooks, None
        if hooks is not None:
            hooks.put_back()

    def _called(self, function: Any, owner: nn.Module | None) -> str:
        if owner is not None:
            return self._name_of(owner) or f"a module {type(owner).__name__}"
        return str(getattr(function, "__qualname__", None) or type(function).__name__)


def _is_wrapper(frame: FrameType) -> bool:
    """Tell whether a frame is one of a compiled function; others change what the compiler looks at, too."""
    return "fn" in frame.f_code.co_freevars


def _is_left(frame: FrameType, callback: Any) -> bool:
    """Tell whether a function that is not to be compiled is left, and the compiler looks on as before."""
    return callback is frame.f_locals.get("prior")


def _region_around(frame: FrameType) -> FrameType | None:
    """Return the outermost frame of a compiled function among the callers."""
    outermost: FrameType | None = None
    at: FrameType | None = frame
    while at is not None:
        if _is_wrapper(at) and at.f_code.co_filename == torch._dynamo.eval_frame.__file__:
            values = at.f_locals
            if callable(values.get("callback", getattr(values.get("self"), "callback", None))):
                outermost = at
        at = at.f_back
    return outermost


def _owner(function: Any) -> nn.Module | None:
    """Return the module that a compiled function runs; None where it is a function of its own."""
    owner = getattr(function, "__self__", None)
    owner = getattr(function, "__wrapped__", None) if owner is None else owner
    return owner if isinstance(owner, nn.Module) else None
