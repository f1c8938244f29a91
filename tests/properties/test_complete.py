"""Nothing that computes with tensors goes unrecorded: a ledger below the APIs counts what really ran."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.zoo import ZOO, Training
from torchparity import open_run
from torchparity.calls.intercept import apis
from torchparity.recording import capture

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
        self.recorded: list[str] = []
        self.unrecorded: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._overloadpacket.__name__
        engine = torch._C._current_graph_task_id() != -1
        if name == "clone" and self.is_reshaping:
            name = "reshape"  # a copy in another order of memory: the same values
        if not engine and name not in FORM_ONLY:
            (self.recorded if self.open_calls else self.unrecorded).append(name)
        return func(*args, **(kwargs or {}))


@pytest.fixture
def ledger(monkeypatch):
    """A ledger that knows when the watcher has a recorded call open."""
    book = Ledger()
    original = apis.ApiWatcher._recorded

    def noted(self, api, func, args, kwargs):
        def counted(*inner, **inner_kwargs):
            book.open_calls += 1
            try:
                return func(*inner, **inner_kwargs)
            finally:
                book.open_calls -= 1

        return original(self, api, counted, args, kwargs)

    every = apis.ApiWatcher.__torch_function__

    def seen(self, func, types, args=(), kwargs=None):
        book.is_reshaping = getattr(func, "__name__", "") in ("reshape", "flatten", "contiguous")
        return every(self, func, types, args, kwargs)

    monkeypatch.setattr(apis.ApiWatcher, "_recorded", noted)
    monkeypatch.setattr(apis.ApiWatcher, "__torch_function__", seen)
    return book


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ZOO)
def test_every_operator_runs_inside_a_recorded_call(name, ledger, tmp_path):
    training = Training(ZOO[name])
    with capture(tmp_path, level="L1"), ledger:
        training.step()

    part = open_run(tmp_path).part()

    assert len(ledger.recorded) > 10
    assert ledger.unrecorded == []
    assert part.problems == []


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_ledger_notices_a_watcher_that_is_off(ledger, tmp_path):
    training = Training(ZOO["mlp"])
    with ledger:
        training.step()

    assert "addmm" in ledger.unrecorded
