"""A ledger below torch's functions: what really ran, and whether a recorded call was open at the time."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch.optim.optimizer import _get_value
from torch.utils._python_dispatch import TorchDispatchMode

from torchparity.calls import ApiMode, Call
from torchparity.recording.step.recorder import Recorder

# What views, `detach` and a change of `requires_grad` come down to, the profiler's marks, and the 1 that
# `backward()` begins with.
FORM_ONLY = set(
    """view _unsafe_view reshape _reshape_alias t transpose permute expand detach alias unbind select slice squeeze
    unsqueeze split split_with_sizes as_strided lift_fresh chunk view_as_real view_as_complex _record_function_enter_new
    _record_function_exit ones_like""".split()  # noqa: SIM905 - a list of words reads better
)


class Ledger(TorchDispatchMode):
    """Notes every operator that reaches the dispatcher and whether a recorded API was open at the time."""

    def __init__(self) -> None:
        super().__init__()
        self.open_calls = 0
        self.is_reshaping = False
        self.is_reading_counter = False
        self.recorded: list[str] = []
        self.unrecorded: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._overloadpacket.__name__
        engine = torch._C._current_graph_task_id() != -1
        if name == "clone" and self.is_reshaping:
            name = "reshape"  # a copy in another order of memory: the same values
        if name == "_local_scalar_dense" and self.is_reading_counter:
            return func(*args, **(kwargs or {}))  # not recorded, on purpose
        if not engine and name not in FORM_ONLY:
            (self.recorded if self.open_calls else self.unrecorded).append(name)
        return func(*args, **(kwargs or {}))


def attached_ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Return a ledger that is told when the recorder has begun to record a call, and when that call ended."""
    ledger = Ledger()
    before, after, raised = Recorder.before, Recorder.after, Recorder.raised
    every = ApiMode.__torch_function__

    def opened(recorder: Recorder, call: Call) -> Any:
        state = before(recorder, call)
        ledger.open_calls += state is not None
        return state

    def closed(recorder: Recorder, call: Call, state: Any, output: Any) -> None:
        ledger.open_calls -= 1
        after(recorder, call, state, output)

    def failed(recorder: Recorder, call: Call, state: Any, error: BaseException) -> None:
        ledger.open_calls -= 1
        raised(recorder, call, state, error)

    def noticing(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        ledger.is_reshaping = getattr(func, "__name__", "") in ("reshape", "flatten", "contiguous")
        ledger.is_reading_counter = sys._getframe(1).f_code is _get_value.__code__
        return every(self, func, types, args, kwargs)

    monkeypatch.setattr(Recorder, "before", opened)
    monkeypatch.setattr(Recorder, "after", closed)
    monkeypatch.setattr(Recorder, "raised", failed)
    monkeypatch.setattr(ApiMode, "__torch_function__", noticing)
    return ledger
