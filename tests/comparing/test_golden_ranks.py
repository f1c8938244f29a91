"""Four ranks that msprobe 8.2.0 recorded, with a fault planted on one of them: rank and record are named.

The checksums of msprobe's runs are those of a race (its README tells), so that nothing is asked of them but an answer.
"""

from __future__ import annotations

import json
import tarfile

import pytest

from tests.support.golden import RANKS, needs_ranks
from torchparity import compare
from torchparity.cli import main

pytestmark = needs_ranks
TASKS = ("statistics", "tensor")
LINEAR, ALL_REDUCE = "Functional.linear.5.forward", "Distributed.all_reduce.3.forward"
PLANTED = {  # rank, record, item
    "forward": (1, LINEAR, "output.0"),
    "grad": (2, ALL_REDUCE, "input.0"),
    "grad3": (2, ALL_REDUCE, "input.0"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    with tarfile.open(RANKS) as archive:
        archive.extractall(folder, filter="data")
    return folder / "runs"


@pytest.mark.parametrize("variant", PLANTED)
@pytest.mark.parametrize("task", TASKS)
def test_the_planted_rank_and_record_are_named(runs, task, variant):
    rank, record, item = PLANTED[variant]

    done = compare(runs / f"L1-{task}-{variant}", runs / f"L1-{task}-base")

    first = done.first_divergence
    assert (first.rank, first.record, first.item) == (rank, record, item)
    assert done.headline().startswith(f"step 0, rank {rank}: ") and record in done.headline()
    assert not done.verdict.also  # the other ranks and records follow from it


@pytest.mark.parametrize("task", TASKS)
def test_the_same_job_twice_agrees(runs, task):
    done = compare(runs / f"L1-{task}-again", runs / f"L1-{task}-base")

    assert done.verdict.kind == "agree" and done.verdict.agreement.is_identical


@pytest.mark.parametrize("variant", [*PLANTED, "again"])
def test_checksums_of_a_race_get_an_answer(runs, variant):
    assert compare(runs / f"L1-md5-{variant}", runs / "L1-md5-base").headline()


@pytest.mark.parametrize("variant", PLANTED)
@pytest.mark.parametrize("task", TASKS)
def test_the_files_name_what_the_headline_names(runs, task, variant, tmp_path):
    rank, record, item = PLANTED[variant]
    left, right = (str(runs / f"L1-{task}-{name}" / "step0") for name in (variant, "base"))

    assert main(["compare", left, right, "-o", str(tmp_path), "-da", "--fail-on", "divergence"]) == 1

    nodes = json.loads(next(tmp_path.glob("diff_analyze_*.json")).read_text())
    assert list(nodes) == [f"rank_{rank}"]
    (node,) = nodes[f"rank_{rank}"]
    records = list(json.loads((runs / f"L1-{task}-{variant}/step0/rank{rank}/dump.json").read_text())["data"])
    assert node["op_name"] == record and records[node["position"]] == record
    assert [node["type"], node["operator"]] == record.split(".")[:2]
    for number in range(4):
        advice = next(tmp_path.glob(f"advisor_rank{number}_*.txt")).read_text()
        if number == rank:
            assert f"Suspect Nodes: {record}.{item}\n" in advice
        else:
            assert "Suspect Nodes: NA\n" in advice
            assert f"The first difference is on rank {rank}, step 0: {record}." in advice
