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


def test_apis_that_the_peer_never_sees_are_recorded(tmp_path):
    x = torch.randn(2, 4)
    with capture(tmp_path):
        torch.fft.fft(x)
        torch.special.erf(x)
        torch.ops.aten.relu(x)
        -x  # noqa: B018
        x[0]
        x.clone()
        x.copy_(x * 2)
        torch.randn(3)
        torch.ones(3)
        torch.tensor([1.0])
        torch.linalg.inv(torch.eye(2))
        x.sum().item()
        torch.stack(tensors=[x, x])
        torch.nn.LSTM(4, 3)(x)
        torch._foreach_add_([x, x], 1.0)

    names = {name.rsplit(".", 2)[0] for name in open_run(tmp_path).part().records}

    assert names >= {
        "Torch.fft.fft", "Torch.special.erf", "Aten.relu", "Tensor.neg", "Tensor.__getitem__", "Tensor.clone",
        "Tensor.copy_", "Torch.randn", "Torch.ones", "Torch.tensor", "Torch.linalg.inv", "Tensor.item", "Torch.stack",
        "VF.lstm", "Torch._foreach_add_",
    }  # fmt: skip


def test_views_are_recorded_on_request(tmp_path):
    x = torch.randn(2, 4)
    for views in (False, True):
        with capture(tmp_path / str(views), settings={"views": views}):
            x.view(4, 2).t().T.add(1)
    names = [list(open_run(tmp_path / str(views)).part().records) for views in (False, True)]

    assert names[0] == ["Tensor.add.0.forward"]
    assert names[1] == ["Tensor.view.0.forward", "Tensor.t.0.forward", "Tensor.T.0.forward", "Tensor.add.0.forward"]
