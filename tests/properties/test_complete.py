"""Nothing that computes with tensors goes unrecorded: a ledger below the APIs counts what really ran."""

from __future__ import annotations

import pytest

from tests.support.ledger import attached_ledger
from tests.support.zoo import ZOO, Training
from torchparity import open_run
from torchparity.recording import capture


@pytest.fixture
def ledger(monkeypatch):
    return attached_ledger(monkeypatch)


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
