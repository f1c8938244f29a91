"""Collectives of torch.distributed: not every torch hands them to modes, so they are wrapped between start and stop.

Where torch does, a function that the script imported by name before, `from torch.distributed import all_reduce`, comes
here through our mode.

A collective writes into its arguments, so its record has them before the call as inputs
and after it, when it is done, as outputs. An asynchronous one is waited for before its
result is read; the user's handle is then finished already. Single sends and receives
are never waited for, but read once the user has waited for them, or they are found done.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, FunctionType
from typing import Any

import torch
from torch import distributed

from torchparity.calls.arguments import tensors_in
from torchparity.calls.audience import Attention, Audience
from torchparity.calls.call import Call
from torchparity.calls.dispatcher import Dispatcher
from torchparity.calls.guard.patches import Patches
from torchparity.calls.intercept.apis import ApiMode
from torchparity.calls.intercept.wrapped import inside_function
from torchparity.ops import Effect, Kind, Op, certain_writes

_TENSOR_ARGUMENTS = frozenset(
    {
        *("tensor", "tensors", "tensor_list", "input", "output", "input_tensor", "output_tensor", "input_list"),
        *("gather_list", "scatter_list", "output_tensor_list", "input_tensor_list", "p2p_op_list"),
    }
)
# Waiting for one of these at once can hang both sides: each waits before it posts what the other waits for.
_NEVER_WAITED_FOR = frozenset({"isend", "irecv", "batch_isend_irecv"})
_WRITES = Effect.WRITES | Effect.WRITES_UNVERSIONED


@functools.cache
def collectives() -> dict[str, Callable[..., Any]]:
    """Return the functions of torch.distributed that move tensors within a group, whatever this torch calls them."""
    functions: dict[str, Callable[..., Any]] = {}
    for name, function in vars(distributed).items():
        if type(function) is FunctionType:  # isinstance would wake torch's deprecation warnings
            arguments = set(inspect.signature(function).parameters)
            if arguments & _TENSOR_ARGUMENTS and ("group" in arguments or "p2p_op_list" in arguments):
                functions[name] = function
    return functions


class UnfinishedTransferError(Exception):
    """A send or receive whose end no recording saw."""

    def __init__(self) -> None:
        super().__init__("it had not finished when the recording stopped; it is left out")


@dataclass
class _Transfer:
    """A send or receive that was started and not waited for."""

    call: Call
    handles: list[Any]  # that nobody has waited for
    tensors: list[torch.Tensor]
    versions: list[int]
    lent: list[torch.Tensor]

    def is_done(self) -> bool:
        return all(handle.is_completed() for handle in self.handles)


class CollectiveInterceptor:
    """Wraps the collectives while attached; one that is called by another is part of its call."""

    def __init__(self, dispatcher: Dispatcher, mode: ApiMode) -> None:
        self._dispatcher, self._mode = dispatcher, mode
        self._patches = Patches()
        self._audiences: dict[str, Audience] = {}
        self._wrapped: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}  # what was wrapped last, as what
        self._transfers: list[_Transfer] = []

    def attach(self) -> None:
        if not distributed.is_available() or self._patches:
            return
        for name in collectives():
            self._patches.put(distributed, name, functools.partial(self._wrapper, name))
        self._mode.wrapped.update({function: vars(distributed)[name] for name, function in collectives().items()})
        for name in ("__new__", "__init__"):
            self._patches.put(distributed.P2POp, name, _taking_wrapped)
        self._patches.put(distributed.Work, "wait", self._noticing_end)

    def detach(self) -> None:
        if self._patches:
            self._settle_transfers()
            for transfer in self._transfers:
                self._dispatcher.boundary.failures.note(transfer.call.op.name, UnfinishedTransferError())
            self._transfers.clear()
            self._mode.wrapped.clear()
            self._patches.end()

    def _wrapper(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what stands for a collective between start and stop: that of the step before where it fits."""
        wrapped_last, wrapper = self._wrapped.get(name, (None, None))
        if wrapper is None or wrapped_last is not original:
            wrapper = self._intercepted(name, original)
            self._wrapped[name] = original, wrapper
        return wrapper

    def _intercepted(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        dispatcher = self._dispatcher

        @functools.wraps(original)
        def collective(*args: Any, **kwargs: Any) -> Any:
            nesting, attention = dispatcher.nesting, dispatcher.attention
            if nesting.is_in_function or nesting.is_in_compiled or attention is Attention.OFF:
                return original(*args, **kwargs)
            audience = self._audience(name)
            is_unheard = self._mode.is_muted or not audience.listeners
            if attention is Attention.COUNTING or is_unheard:
                dispatcher.count(audience.op.name)
            if attention is Attention.COUNTING:
                with inside_function(nesting, self._mode):
                    return original(*args, **kwargs)
            if is_unheard:
                with inside_function(nesting, self._mode):
                    work = original(*args, **kwargs)
                self._report_effects(audience, args, kwargs, is_under_way=bool(_handles(work)))
                return work
            with inside_function(nesting, self._mode):  # some of them pass through modes, too
                return self._run(name, audience, original, args, kwargs, sys._getframe(1))

        return collective

    def _audience(self, name: str) -> Audience:
        """Return who listens to a collective: asked when it is first called, since most trainings call few or none."""
        audience = self._audiences.get(name)
        if audience is None:
            op = Op(f"Distributed.{name}", Kind.COLLECTIVE, _WRITES)
            audience = self._audiences[name] = self._dispatcher.audience(op)
        return audience

    def _run(
        self,
        name: str,
        audience: Audience,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        frame: FrameType,
    ) -> Any:
        dispatcher = self._dispatcher
        self._settle_transfers()
        call = dispatcher.begin_function(audience, args, kwargs, frame)
        if call is None:
            return original(*args, **kwargs)
        try:
            work = original(*args, **kwargs)
        except BaseException as error:
            dispatcher.fail(call, error)
            raise
        handles = _handles(work)
        if handles and name in _NEVER_WAITED_FOR:
            dispatcher.boundary.run(call.name, self._note_transfer, call, handles)
        elif dispatcher.boundary.run(call.name, _wait_for_all, handles):
            dispatcher.end(call, _written_arguments(call))
        return work

    def _noticing_end(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(work, *args, **kwargs)
            if self._transfers:
                self._dispatcher.boundary.run("Distributed", self._note_end, work)
            return result

        return wait

    def _note_end(self, work: Any) -> None:
        """Record a transfer that the user has waited for, before anybody reads what it brought."""
        for transfer in self._transfers:
            transfer.handles = [handle for handle in transfer.handles if handle is not work]
        if self._dispatcher.attention is not Attention.OFF:
            self._end_finished_transfers()

    def _note_transfer(self, call: Call, handles: list[Any]) -> None:
        tensors = list(tensors_in([*call.args, *call.kwargs.values()]))
        written = certain_writes(call.op, call.args, call.kwargs)
        lent = tensors if written is None else list(tensors_in(written))
        self._dispatcher.memory.lent(call.name, lent)
        self._transfers.append(_Transfer(call, handles, tensors, [tensor._version for tensor in tensors], lent))

    def _settle_transfers(self) -> None:
        self._dispatcher.boundary.run("Distributed", self._end_finished_transfers)

    def _end_finished_transfers(self) -> None:
        """Read what has arrived since; a buffer that was written again meanwhile is recorded without its values."""
        for transfer in list(self._transfers):
            if transfer.is_done():
                self._transfers.remove(transfer)
                self._dispatcher.memory.returned(transfer.call.name, transfer.lent)
                is_untouched = [tensor._version for tensor in transfer.tensors] == transfer.versions
                if not is_untouched:
                    transfer.call.inputs.let_go()
                self._dispatcher.end_inside(transfer.call, _written_arguments(transfer.call))

    def _report_effects(
        self, audience: Audience, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_under_way: bool
    ) -> None:
        """Report what a collective that nobody listens to wrote, or will write at some time from now on."""
        dispatcher, name = self._dispatcher, audience.op.name
        if is_under_way:
            dispatcher.boundary.run(name, dispatcher.memory.exposed, name, list(tensors_in([*args, *kwargs.values()])))
        else:
            dispatcher.boundary.run(name, dispatcher.memory.wrote, audience.op, args, kwargs)


def _written_arguments(call: Call) -> tuple[Any, ...]:
    return (*call.args, *(value for key, value in call.kwargs.items() if key not in ("group", "async_op")))


def _handles(work: Any) -> list[Any]:
    """Return what a collective that is still running can be waited for with."""
    return [handle for handle in (work if isinstance(work, list) else [work]) if hasattr(handle, "wait")]


def _wait_for_all(handles: list[Any]) -> bool:
    for handle in handles:
        handle.wait()
    return True


def _taking_wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
    """Let `P2POp(dist.isend, ...)` be made of wrapped functions too: torch takes none but its own."""

    @functools.wraps(original)
    def make(operation: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        return original(operation, getattr(op, "__wrapped__", op), *args, **kwargs)

    return make
