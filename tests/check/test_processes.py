"""Several processes: results in order, also where a process dies."""

from __future__ import annotations

import multiprocessing

import pytest
import torch

import torchparity
from torchparity.check.cases import cases_of
from torchparity.check.judging import Status
from torchparity.check.processes import Process, results_of_processes, undisturbed
from torchparity.check.selection import Selection
from torchparity.check.source import RunSource

CALLS = 60


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes") / "run"
    with torchparity.capture(str(folder), level="L1") as recording:
        for _ in range(CALLS):
            torch.exp(torch.ones(3))
        recording.step()
    return RunSource(path=folder)


def test_a_process_that_dies_costs_no_other_call(source):
    cases = list(cases_of(source.part(0, 0)))
    results = results_of_processes(source, Selection(), cases, [Process("cpu")])

    first = next(results)
    for child in multiprocessing.active_children():
        child.kill()
    everything = [first, *results]

    names = [case.name for case in cases]
    assert [result.name for result in everything] == names
    assert {result.status for result in everything} <= {Status.PASS, Status.SKIP}
    assert sum(result.status is Status.PASS for result in everything) >= len(names) - 1


def test_the_caller_s_random_numbers_go_on_as_before():
    torch.manual_seed(3)
    expected = torch.rand(4)

    torch.manual_seed(3)
    with undisturbed():
        torch.rand(100)

    assert torch.equal(torch.rand(4), expected)
