"""Two ranks with DDP or FSDP2: the same job twice agrees, and a fault of one rank is found on that rank."""

from __future__ import annotations

import json

import pytest

import torchparity
from tests.support.ranks import KERNEL, STRATEGIES, record_ranks
from torchparity.cli import main

OF_EACH = pytest.mark.parametrize("strategy", STRATEGIES)
FIRST = "Functional.linear.0.forward"


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """A folder with a run of every strategy and fault."""
    folder = tmp_path_factory.mktemp("ranks")
    record_ranks(folder)
    return folder


@pytest.fixture
def verdict(jobs):
    return lambda strategy, fault: torchparity.compare(jobs / f"{strategy}-{fault}", jobs / f"{strategy}-none").verdict


@OF_EACH
def test_the_same_job_twice_agrees(strategy, verdict):
    found = verdict(strategy, "again")

    assert found.kind == "agree", found.sentence


@OF_EACH
def test_other_data_of_one_rank_are_found_where_they_come_in(strategy, verdict):
    found = verdict(strategy, "data")

    assert (found.kind, found.first.rank) == ("data", 1), found.sentence
    assert (found.first.record, found.first.item) == (FIRST, "input.0")
    assert found.sentence.startswith("step 0, rank 1: ")


@OF_EACH
def test_a_wrong_kernel_of_one_rank_is_found_before_any_collective(strategy, verdict):
    found = verdict(strategy, "kernel")

    assert (found.kind, found.first.rank, found.first.record) == ("operator", 1, KERNEL), found.sentence
    assert found.sentence.startswith("step 0, rank 1: ")


@OF_EACH
def test_what_follows_from_the_first_is_not_told_again(strategy, verdict):
    found = verdict(strategy, "kernel")

    assert found.also == ()


@OF_EACH
def test_other_weights_are_called_weights(strategy, verdict):
    found = verdict(strategy, "weights")

    assert found.kind == "weights", found.sentence


@OF_EACH
@pytest.mark.parametrize(("fault", "named"), [("data", FIRST), ("kernel", KERNEL)])
def test_the_file_of_nodes_names_rank_and_record(strategy, fault, named, jobs, tmp_path):
    main(["compare", str(jobs / f"{strategy}-{fault}"), str(jobs / f"{strategy}-none"), "-da", "-o", str(tmp_path)])

    (file,) = tmp_path.glob("diff_analyze*.json")
    nodes = json.loads(file.read_text())
    assert next(iter(nodes)) == "rank_1"
    assert nodes["rank_1"][0]["op_name"] == named
