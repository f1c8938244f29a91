"""bench_path and diff_nums: only what differs from another run is stored."""

from __future__ import annotations

import pytest
import torch

from tests.support.runs import stored_records
from torchparity import open_run
from torchparity.errors import ConfigError, RunNotFoundError
from torchparity.recording import capture


def chain(x, disturbed=()):
    for name in ("sin", "exp", "cos", "tanh"):
        x = getattr(torch, name)(x)
        if name in disturbed:
            x.add_(1)


@pytest.fixture
def baseline(tmp_path):
    with capture(tmp_path / "baseline", summary_mode="md5"):
        chain(torch.ones(2))
    return tmp_path / "baseline"


def test_only_what_differs_from_bench_path_is_stored(tmp_path, baseline, capsys):
    settings = {"task": "tensor", "summary_mode": "md5", "bench_path": str(baseline), "diff_nums": -1}
    with capture(tmp_path / "run", **settings):
        chain(torch.ones(2), disturbed=["cos"])
        torch.log(torch.ones(2))

    whole, some = stored_records(open_run(tmp_path / "run").part())
    assert whole == some == ["Torch.tanh.0.forward"]
    line = capsys.readouterr().out.splitlines()[-1]
    assert "1 record differing from" in line
    assert "Torch.tanh.0.forward" in line and "3 records not in" in line


def test_after_diff_nums_differences_nothing_more_is_recorded(tmp_path, baseline):
    with capture(tmp_path / "run", task="tensor", summary_mode="md5", bench_path=str(baseline)) as recording:
        chain(torch.zeros(2))
        recording.step()
        chain(torch.ones(2))

    run = open_run(tmp_path / "run")
    assert run.steps == [0]
    assert len(stored_records(run.part())[1]) == 1


def test_equal_runs_store_nothing_and_go_on(tmp_path, baseline):
    with capture(tmp_path / "run", task="tensor", summary_mode="md5", bench_path=str(baseline)) as recording:
        chain(torch.ones(2))
        recording.step()
        chain(torch.ones(2))

    run = open_run(tmp_path / "run")
    assert run.steps == [0, 1]
    assert stored_records(run.part(step=0)) == ([], [])


def test_a_bench_path_that_cannot_serve_is_refused_at_start(tmp_path, baseline):
    with capture(tmp_path / "plain"):
        torch.exp(torch.ones(1))

    with pytest.raises(ConfigError, match="summary_mode 'md5'"), capture(tmp_path / "a", task="tensor", bench_path="x"):
        pass
    settings = {"task": "tensor", "summary_mode": "md5"}
    with pytest.raises(RunNotFoundError), capture(tmp_path / "a", **settings, bench_path=str(tmp_path / "nowhere")):
        pass
    with (
        pytest.raises(ConfigError, match="no checksums"),
        capture(tmp_path / "a", **settings, bench_path=str(tmp_path / "plain")),
    ):
        pass
