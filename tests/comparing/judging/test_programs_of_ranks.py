"""Two ranks with DDP or FSDP2: the same job twice agrees, and a fault of one rank is found on that rank."""

from __future__ import annotations

import json

import pytest

import torchparity
from tests.support.ranks import KERNEL, record_ranks

CASES = [("ddp", "statistics"), ("fsdp2", "statistics"), ("fsdp2", "tensor")]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def job(request, tmp_path_factory):
    """A strategy and a task, and the run of a training without a fault."""
    strategy, task = request.param
    return strategy, task, record_ranks(tmp_path_factory.mktemp("ranks") / "baseline", strategy=strategy, task=task)


@pytest.fixture
def verdict(job, tmp_path):
    strategy, task, baseline = job

    def run(fault):
        path = record_ranks(tmp_path / "candidate", strategy=strategy, task=task, fault=fault)
        comparison = torchparity.compare(path, baseline)
        return comparison

    return run


def test_the_same_job_twice_agrees(verdict):
    found = verdict("none").verdict

    assert found.kind == "agree", found.sentence


def test_other_data_of_one_rank_are_found_where_they_come_in(verdict, job, tmp_path):
    found = verdict("data").verdict

    assert (found.kind, found.first.rank) == ("data", 1), found.sentence
    assert found.first.record == "Functional.linear.0.forward" and found.first.item == "input.0"
    assert "rank 1" in found.sentence


def test_a_wrong_kernel_of_one_rank_is_found_before_any_collective(verdict):
    found = verdict("kernel").verdict

    assert (found.kind, found.first.rank, found.first.record) == ("operator", 1, KERNEL), found.sentence
    assert "rank 1" in found.sentence


def test_other_weights_are_called_weights(verdict):
    found = verdict("weights").verdict

    assert found.kind == "weights", found.sentence


def test_the_file_of_nodes_names_the_rank(verdict, tmp_path):
    from torchparity.cli import main

    assert json and main and tmp_path and verdict
