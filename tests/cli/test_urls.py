"""Commands about one run of several ranks read URLs as they read folders."""

from __future__ import annotations

import fsspec
import numpy as np
import pytest

from tests.support.rank_runs import RankRun
from torchparity.cli import main

RANKS = 2


@pytest.fixture
def places(tmp_path):
    """A run with a nan and a wrong sum on rank 1, in a folder and in fsspec's store in memory."""
    run = RankRun(RANKS, "tensor")
    for rank in range(RANKS):
        run.call(rank, "Distributed.all_reduce", [np.ones(5, np.float32)], [np.full(5, 2, np.float32)])
        run.call(rank, "Torch.log", [np.ones(5, np.float32)], [np.full(5, np.nan if rank else 0, np.float32)])
        run.call(rank, "Distributed.all_reduce", [np.ones(5, np.float32)], [np.full(5, 2 + rank, np.float32)])
    folder = run.write(tmp_path / "run")
    system = fsspec.filesystem("memory")
    name = f"/{tmp_path.parent.name}-{tmp_path.name}"
    system.put(str(folder), f"{name}/run", recursive=True)
    yield str(folder), f"memory:/{name}/run"
    system.rm(name, recursive=True)


@pytest.mark.parametrize("command", [["laws"], ["overflow", "--origin"]])
def test_a_run_behind_a_url_has_the_same_answer(command, places, tmp_path, capsys):
    folder = ["-o", str(tmp_path / "out")] if "--origin" in command else []
    answers = []
    for place in places:
        assert main([*command, place, *folder]) == 0
        answers.append([line for line in capsys.readouterr().out.splitlines() if not line.startswith("wrote")])

    assert answers[0] == answers[1]
    assert "rank 1" in answers[0][0]


@pytest.mark.parametrize("command", [["laws"], ["overflow", "--origin"]])
def test_a_url_that_leads_nowhere_is_said_as_it_was_typed(command, capsys):
    assert main([*command, "memory://nowhere/run"]) == 2

    assert capsys.readouterr().err == "torchparity: memory://nowhere/run does not exist.\n"
