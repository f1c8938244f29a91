"""Four processes on gloo, with DDP and with tensor parallelism: a fault of one rank is found there.

A gradient scaled before it is reduced is found by comparing, an all_reduce that gives one rank something else by its
law alone.
"""

from __future__ import annotations

import json

import pytest

import torchparity
from tests.support.four_ranks import BROKEN, FAULTY, JOBS, STAGE, record_four_ranks
from torchparity.cli import main
from torchparity.communication.entry import check_laws
from torchparity.records import TensorLeaf

REDUCED = "Distributed.all_reduce.0.forward"
OF_EACH = pytest.mark.parametrize("strategy", ["ddp", "tp"])


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """A folder with a run of every job."""
    folder = tmp_path_factory.mktemp("four")
    record_four_ranks(folder)
    return folder


@OF_EACH
def test_a_gradient_that_was_scaled_unseen_is_found_where_it_is_reduced(strategy, jobs):
    found = torchparity.compare(jobs / f"{strategy}-scaled", jobs / f"{strategy}-none").verdict

    first = found.first
    assert (first.rank, first.record, first.item) == (FAULTY, REDUCED, "input.0"), found.sentence
    assert found.kind == "unrecorded step" and "so something between is not recorded" in found.sentence
    assert found.also == ()  # what the other ranks received follows from it


@OF_EACH
def test_the_file_of_nodes_says_that_the_communication_only_passed_it_on(strategy, jobs, tmp_path):
    runs = [str(jobs / f"{strategy}-{fault}") for fault in ("scaled", "none")]
    assert main(["compare", *runs, "-da", "-o", str(tmp_path), "--fail-on", "divergence"]) == 1

    nodes = json.loads(next(tmp_path.glob("diff_analyze*.json")).read_text())
    assert list(nodes) == [f"rank_{FAULTY}"]
    (node,) = nodes[f"rank_{FAULTY}"]
    assert (node["op_name"], node["communication"]) == (REDUCED, "passed on")


def test_a_tensor_that_was_scaled_in_a_pipeline_is_found_at_its_stage(jobs):
    found = torchparity.compare(jobs / "pipe-scaled", jobs / "pipe-none").verdict

    first = found.first
    assert (first.rank, first.record, first.item) == (STAGE, "Tensor.sin.0.forward", "input.0"), found.sentence
    assert found.kind == "unrecorded step" and "Torch.tanh.0.forward, which made it, agrees" in found.sentence


@pytest.mark.parametrize(
    ("received", "reader"),
    [
        ("Distributed.irecv.0.forward", "Tensor.matmul.0.forward"),
        ("Distributed.batch_isend_irecv.0.forward", "Tensor.matmul.1.forward"),
    ],
)
def test_a_receive_is_recorded_when_it_was_waited_for_and_made_what_is_read_then(received, reader, jobs):
    part = torchparity.open_run(jobs / "pipe-none").part(0, 3)

    names = list(part.records)
    assert names.index(received) < names.index(reader)
    assert [origin.name for origin in part.origins_of(part.records[reader].input_args[0])] == [received]


def test_what_was_sent_keeps_its_maker(jobs):
    part = torchparity.open_run(jobs / "pipe-none").part(0, 0)

    for name in ("Distributed.isend.0.forward", "Distributed.batch_isend_irecv.0.forward"):
        returned = [item.leaf for item in part.records[name].items() if item.role == "output"]
        makers = [part.origins_of(leaf) for leaf in returned if isinstance(leaf, TensorLeaf)]
        assert len(makers) == 1, name
        assert all("Tensor.sin" in origin.name for each in makers for origin in each), makers


def test_an_all_reduce_that_gives_one_rank_something_else_is_found_without_a_baseline(jobs, capsys):
    assert main(["laws", str(jobs / "ddp-broken"), "--fail-on", "broken"]) == 1

    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith(f"Broken: step 0, rank {BROKEN} of group [0, 1, 2, 3]: {REDUCED}: output.0 is not")
    assert "the average of what the ranks sent" in first
    assert any("is not what the optimizer of rank 0 reads" in line for line in others)  # DDP's law is broken by it


def test_comparing_blames_the_all_reduce_itself(jobs):
    found = torchparity.compare(jobs / "ddp-broken", jobs / "ddp-none").verdict

    assert (found.kind, found.first.rank, found.first.record) == ("operator", BROKEN, REDUCED), found.sentence
    assert "the communication itself is at fault" in found.sentence


@pytest.mark.parametrize("job", [job for job in JOBS if job != "ddp-broken"])
def test_laws_hold_where_nothing_is_broken(job, jobs, capsys):
    assert main(["laws", str(jobs / job), "--fail-on", "broken", "--json"]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["broken"] == [] and answer["held"]["send" if "pipe" in job else "all_reduce"] >= 6


@pytest.mark.parametrize("job", ["all-none", "all-values"])
def test_every_collective_is_checked_or_listed_with_its_reason(job, jobs):
    report = check_laws(jobs / job)

    kinds = {"all_gather", "all_reduce", "all_to_all", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"}
    assert set(report.held) == {*kinds, "send"}
    assert report.held["send"] == 10  # a ring in a batch, a ring one by one, and two pairs
    reasons = {law.reason for law in report.unchecked if law.law != "replicas"}
    product = {"statistics cannot tell the product of tensors; record values"}
    assert reasons == (product if job == "all-none" else set())  # objects are sent as bytes, which are checked, too


def test_replicas_of_a_model_that_is_cut_in_two_are_found_by_their_weights(jobs):
    report = check_laws(jobs / "ddp-none")

    assert report.held["replicas"] > 20 and report.unchecked == []
    cut = check_laws(jobs / "tp-none")
    assert cut.held["replicas"] == 8  # four parameters, of ranks 0 and 2, and of 1 and 3
