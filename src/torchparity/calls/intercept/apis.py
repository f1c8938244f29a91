"""Sees every API call through torch's own function mode; nothing is patched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import CodeType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchparity.calls.audience import Attention, Audience
from torchparity.calls.dispatcher import Dispatcher
from torchparity.calls.intercept.backward_entry import BackwardEntry
from torchparity.calls.listener import Interest
from torchparity.ops import Kind, describe_function

# A module's own names are found faster than members of an enumeration.
_OFF, _COUNTING, _LISTENING = Attention.OFF, Attention.COUNTING, Attention.LISTENING
_NOTHING, _WRITES, _CALLS = Interest.NOTHING, Interest.WRITES, Interest.CALLS
_BACKWARD, _COMPUTES = Kind.BACKWARD, Kind.COMPUTES
# Torch's optimizers read the counter of each parameter, some twice, through this function. That is no news: the calls
# that count, and those that compute with the number, are recorded.
_READS_COUNTER: CodeType | None = getattr(
    getattr(import_module("torch.optim.optimizer"), "_get_value", None), "__code__", None
)


class ApiMode(TorchFunctionMode):
    """Hands each API call to the dispatcher; never changes a value, a stride or the random state.

    Inside a call the mode is off, so only the outermost API is seen. While it is muted it
    numbers calls and reports writes, `x.data.add_(1)` say, and nobody is told of the calls.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()
        self.is_muted = False
        self.wrapped: dict[Callable[..., Any], Callable[..., Any]] = {}  # that were imported by name before
        self._dispatcher = dispatcher
        self._audiences = _Audiences(dispatcher, self.wrapped)
        self._backward_entry = BackwardEntry(self, dispatcher)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        # A compiler or tracer that looks at us would put our own work into the user's graph.
        if torch.compiler.is_compiling():
            return func(*args, **kwargs)
        try:
            audience = self._audiences[func]
        except Exception:  # noqa: BLE001 - a user's own function, whose hash or attributes may raise anything
            audience = None
        if audience is None:
            return self._unlisted(func)(*args, **kwargs)
        interest = audience.interest
        if interest is _NOTHING and (not kwargs or "out" not in kwargs):
            return func(*args, **kwargs)
        dispatcher = self._dispatcher
        attention = dispatcher.attention
        if attention is _OFF or torch._C._get_tracing_state() is not None:
            return func(*args, **kwargs)
        if interest is _WRITES and dispatcher.nesting.is_in_optimizer:  # of whose end the listeners are told
            return func(*args, **kwargs)
        if interest is _CALLS:
            if attention is _LISTENING and not self.is_muted:
                frame = sys._getframe(1)
                if frame.f_code is not _READS_COUNTER:
                    return dispatcher.run(audience, func, args, kwargs, frame)
                dispatcher.count(audience.op.name)
                return func(*args, **kwargs)
            dispatcher.count(audience.op.name)
        if attention is _COUNTING:
            return func(*args, **kwargs)
        return self._with_effects(audience, func, args, kwargs)

    def _unlisted(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return next((wrapper for each, wrapper in self.wrapped.items() if each is func), func)

    def _with_effects(
        self, audience: Audience, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Make a call that nobody listens to, and report what it may have done to memory."""
        op, dispatcher = audience.op, self._dispatcher
        if op.kind is _BACKWARD:
            dispatcher.memory.ran_unseen(op.name, only_backward=True)
            with self._backward_entry.open():
                return func(*args, **kwargs)
        if op.exposes:
            tensors = [value for value in args if isinstance(value, torch.Tensor)]
            dispatcher.boundary.run(op.name, dispatcher.memory.exposed, op.name, tensors)
        output = func(*args, **kwargs)
        if op.writes or "out" in kwargs:
            dispatcher.boundary.run(op.name, dispatcher.memory.wrote, op, args, kwargs)
        # A view of the same memory, which nearly all that may copy return, is no news.
        if op.kind is _COMPUTES or (op.may_copy and isinstance(output, torch.Tensor) and not output._is_view()):
            dispatcher.boundary.run(op.name, dispatcher.memory.passed, op, args, kwargs, output)
        return output


class _Audiences(dict[Callable[..., Any], Audience]):
    """The audience of each function: described and asked once, then one dictionary access per call."""

    def __init__(self, dispatcher: Dispatcher, wrapped: Mapping[Callable[..., Any], Any]) -> None:
        super().__init__()
        self._dispatcher, self._wrapped = dispatcher, wrapped

    def __missing__(self, function: Callable[..., Any]) -> Audience:
        if function in self._wrapped:
            raise KeyError(function)
        op = describe_function(function)
        audience = self._dispatcher.audience(op)
        if op.kind is Kind.BACKWARD and audience.interest is not Interest.CALLS:
            audience = Audience(op, Interest.EFFECTS, ())
        self[function] = audience
        return audience
