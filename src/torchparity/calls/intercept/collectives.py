"""Collectives of torch.distributed: torch hands them to no mode, so they are wrapped between start and stop.

A collective writes into its arguments, so its record has them before the call as inputs
and after it, when it is done, as outputs. An asynchronous one is waited for before its
result is read; who called it gets a handle that is already finished. Single sends and
receives are never waited for, but read once they are done.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import distributed

from torchparity.calls.guard.mode_stack import put_back, take_off
from torchparity.calls.guard.nesting import Covered
from torchparity.calls.guard.patches import Patches
from torchparity.calls.intercept.apis import ApiWatcher
from torchparity.ops.catalog import Api
from torchparity.recording.measuring.geometry import tensors_in
from torchparity.recording.step.recorder import Call, Recorder

_TENSOR_ARGUMENTS = frozenset(
    {
        *("tensor", "tensors", "tensor_list", "input", "output", "input_tensor", "output_tensor", "input_list"),
        *("gather_list", "scatter_list", "output_tensor_list", "input_tensor_list", "p2p_op_list"),
    }
)
# Waiting for one of these at once can hang both sides: each waits before it posts what the other waits for.
_NEVER_WAITED_FOR = frozenset({"isend", "irecv", "batch_isend_irecv"})


@functools.cache
def collectives() -> dict[str, Callable[..., Any]]:
    """Return the functions of torch.distributed that move tensors within a group, whatever this torch calls them."""
    found: dict[str, Callable[..., Any]] = {}
    for name, function in vars(distributed).items():
        if type(function) is FunctionType:  # isinstance would wake torch's deprecation warnings
            arguments = set(inspect.signature(function).parameters)
            if arguments & _TENSOR_ARGUMENTS and ("group" in arguments or "p2p_op_list" in arguments):
                found[name] = function
    return found


class CollectiveWatcher:
    """Wraps the collectives while attached; calls of one from within another are not recorded.

    With `records` off none is, but what they write is looked at again: torch counts no new version for it.
    """

    def __init__(self, recorder: Recorder, covered: Covered, mode: ApiWatcher, *, records: bool) -> None:
        self._recorder, self._covered, self._mode, self.records = recorder, covered, mode, records
        self._patches = Patches()
        self._under_way: list[_UnderWay] = []

    def attach(self) -> None:
        if not distributed.is_available() or self._patches:
            return
        for name in collectives():
            self._patches.put(distributed, name, functools.partial(self._watched, name))
        for name in ("__new__", "__init__"):
            self._patches.put(distributed.P2POp, name, _taking_wrapped)

    def detach(self) -> None:
        if self._patches:
            self._recorder.boundary.run("Distributed", self._settle)
            self._patches.end()

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        api = Api(f"Distributed.{name}", "record")

        @functools.wraps(original)
        def collective(*args: Any, **kwargs: Any) -> Any:
            if self._covered.is_silent:
                return original(*args, **kwargs)
            if not self._recorder.is_recording or not self.records:
                self._recorder.boundary.run(api.name, self._recorder.count, api.name)
            if not self._recorder.is_recording:
                return original(*args, **kwargs)
            if not self.records:
                work = original(*args, **kwargs)
                look_again = self._distrust if _handles(work) else self._renew
                self._recorder.boundary.run(api.name, look_again, args, kwargs)
                return work
            self._covered.is_inside, place = True, take_off(self._mode)  # some of them pass through modes, too
            recorder, frame = self._recorder, sys._getframe(1)
            try:
                recorder.boundary.run(api.name, self._settle)
                call: Call | None = recorder.boundary.run(api.name, lambda: recorder.begin(api, args, kwargs, frame))
                if call is not None:
                    call.start_clock(recorder.boundary)
                work = original(*args, **kwargs)
                if call is not None:
                    recorder.boundary.run(api.name, lambda: self._returned(name, call, work, args, kwargs))
                return work
            finally:
                self._covered.is_inside = False
                if place is not None:
                    put_back(self._mode, place)

        return collective

    def _returned(self, name: str, call: Call, work: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        handles = _handles(work)
        if handles and name in _NEVER_WAITED_FOR:
            self._distrust(args, kwargs)
            tensors = list(tensors_in([*args, *kwargs.values()]))
            self._under_way.append(_UnderWay(call, handles, args, kwargs, tensors, [t._version for t in tensors]))
            return
        for handle in handles:
            handle.wait()
        self._finish(call, args, kwargs)

    def _settle(self) -> None:
        """Read what has arrived since; a buffer that was written again meanwhile is recorded without its values."""
        for transfer in list(self._under_way):
            if all(handle.is_completed() for handle in transfer.handles):
                self._under_way.remove(transfer)
                untouched = [tensor._version for tensor in transfer.tensors] == transfer.versions
                self._finish(transfer.call, transfer.args if untouched else (), transfer.kwargs if untouched else {})

    def _finish(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        call.inputs = None  # collectives have no gradient of their own
        self._renew(args, kwargs)
        outputs = [*args, *(value for key, value in kwargs.items() if key not in ("group", "async_op"))]
        self._recorder.end(call, tuple(outputs))

    def _distrust(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take no look at these tensors for granted: they are written at some time from now on."""
        self._recorder.measurements.never_cache(*tensors_in([*args, *kwargs.values()]))

    def _renew(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forget what was known of these tensors: they were written below torch's version counters."""
        self._recorder.measurements.invalidate(*tensors_in([*args, *kwargs.values()]))


def _handles(work: Any) -> list[Any]:
    """Return what a collective that is still under way can be waited for with."""
    return [handle for handle in (work if isinstance(work, list) else [work]) if hasattr(handle, "wait")]


def _taking_wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
    """Let `P2POp(dist.isend, ...)` be made of wrapped functions too: torch takes none but its own."""

    @functools.wraps(original)
    def make(made: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        return original(made, getattr(op, "__wrapped__", op), *args, **kwargs)

    return make


@dataclass
class _UnderWay:
    """A transfer that was started and not waited for."""

    call: Call
    handles: list[Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: list[torch.Tensor]
    versions: list[int]
