"""A difference is followed back over sends, subgroups and batches to the rank that made it."""

from __future__ import annotations

import numpy as np
import pytest

import torchparity
from tests.support.rank_runs import RankRun
from torchparity.comparing.judging.search.ranks import Placed, may_be_reduced
from torchparity.comparing.judging.verdict import Finding, Kind

X = np.random.default_rng(3).normal(size=(4, 40)).astype(np.float32)
SEND, RECV = "Distributed.send", "Distributed.recv"
ISEND, IRECV, BATCH = "Distributed.isend", "Distributed.irecv", "Distributed.batch_isend_irecv"
ALL_REDUCE, BROADCAST = "Distributed.all_reduce", "Distributed.broadcast"


@pytest.fixture
def verdict(tmp_path):
    """The verdict on a job with a fault against the same without, `job` being called with either."""

    def judged(job, *, only=None):
        for name, fault in (("candidate", 1.1), ("baseline", 1.0)):
            run = RankRun(4)
            job(run, np.float32(fault))
            run.write(tmp_path / name, only=only)
        return torchparity.compare(tmp_path / "candidate", tmp_path / "baseline").verdict

    return judged


def named(found):
    return found.first.rank, found.first.record, found.first.item


def test_a_pipeline_is_followed_back_to_its_first_stage(verdict):
    def job(run, fault):
        for rank in range(4):
            held = X[rank] * (fault if rank else 1)
            if rank:
                run.call(rank, IRECV, [X[0] * 0, rank - 1], [held, rank - 1])
            made = X[rank + 1 if rank < 3 else 0] * fault
            run.call(rank, "Torch.exp", [held], [made])
            if rank < 3:
                run.call(rank, ISEND, [made, rank + 1], [made, rank + 1])

    found = verdict(job)

    assert named(found) == (0, "Torch.exp.0.forward", "output.0"), found.sentence
    assert found.also == ()


def test_a_subgroup_is_paired_by_its_own_order(verdict):
    def job(run, fault):
        for rank in range(4):
            if rank > 1:
                made = X[rank] * (fault if rank == 3 else 1)
                run.call(rank, "Torch.exp", [X[rank]], [made])
                run.call(rank, ALL_REDUCE, [made], [X[2] + X[3] * fault], group=(2, 3))
            total = X[0] + X[3] * fault
            run.call(rank, ALL_REDUCE, [X[rank] if rank < 2 else X[2] + X[3] * fault], [total])
            run.call(rank, "Torch.sin", [total], [np.sin(total)])

    found = verdict(job)

    assert named(found) == (3, "Torch.exp.0.forward", "output.0"), found.sentence


def test_a_batch_of_sends_is_followed_to_the_rank_whose_tensor_differs(verdict):
    def job(run, fault):
        for rank in range(4):
            made = X[rank] * (fault if rank == 2 else 1)
            run.call(rank, "Torch.exp", [X[rank] + 1], [made])
            before = (rank - 1) % 4
            arrived = X[before] * (fault if before == 2 else 1)
            send = {"op": "isend", "tensor": made, "peer": (rank + 1) % 4, "group": (0, 1, 2, 3)}
            stale = X[rank] * (fault if rank == 1 else 1)  # what was in a buffer before is no input
            receive = {"op": "irecv", "tensor": stale, "peer": before, "group": (0, 1, 2, 3)}
            run.call(rank, BATCH, [[send, receive]], [[send, receive | {"tensor": arrived}]])

    found = verdict(job)

    assert named(found) == (2, "Torch.exp.0.forward", "output.0"), found.sentence
    assert found.also == ()


def test_what_the_receivers_of_a_broadcast_held_before_is_no_input(verdict):
    def job(run, fault):
        for rank in range(4):
            held = X[rank] * (fault if rank == 1 else 1)
            run.call(rank, BROADCAST, [held, 0], [X[0], 0])

    assert verdict(job).kind == "agree"


@pytest.mark.parametrize(("first", "then"), [(SEND, RECV), (ISEND, IRECV)])
def test_a_send_that_arrives_as_something_else_is_at_fault(first, then, verdict):
    def job(run, fault):
        run.call(0, first, [X[0], 1], [X[0], 1])
        run.call(1, then, [X[1] * 0, 0], [X[0] * fault, 0])
        run.call(1, "Torch.sin", [X[0] * fault], [np.sin(X[0] * fault)])

    found = verdict(job)

    assert named(found) == (1, f"{then}.0.forward", "output.0"), found.sentence
    assert "every rank sent what it sent in the baseline, so the communication itself is at fault" in found.sentence


def test_a_rounding_of_what_was_sent_does_not_explain_a_large_error(verdict):
    def job(run, fault):
        for rank in range(4):
            sent = X[rank] * (np.float32(1 + 1e-7) if rank == 3 and fault != 1 else 1)
            run.call(rank, ALL_REDUCE, [sent], [X.sum(axis=0) * (fault if rank == 1 else 1)])

    found = verdict(job)

    assert named(found) == (1, f"{ALL_REDUCE}.0.forward", "output.0"), found.sentence
    assert "the communication itself is at fault" in found.sentence


def test_a_rank_that_was_not_recorded_may_be_at_fault(verdict):
    def job(run, fault):
        for rank in range(4):
            run.call(rank, ALL_REDUCE, [X[rank] * (fault if rank == 2 else 1)], [X.sum(axis=0) * fault])

    found = verdict(job, only=(0, 1, 3))

    assert found.first.record == f"{ALL_REDUCE}.0.forward"
    assert "what rank 2 sent is not compared, and may be at fault" in found.sentence


def placed(rank, record, clock):
    fields = {"kind": Kind.OPERATOR, "step": 0, "row": 0, "baseline_record": record, "item": "output.0"}
    return Placed(Finding(rank=rank, record=record, **fields), clock, 0)


@pytest.mark.parametrize(
    ("rank", "record", "clock", "may_be"),
    [
        (0, "Module.fc.Linear.parameters_grad.1", 2, True),
        (0, "Module.fc.Linear.parameters_grad.1", 1, False),  # before anything was sent
        (1, "Module.fc.Linear.parameters_grad.1", 2, False),
        (0, "Torch.sin.0.forward", 2, False),  # what it received is recorded
    ],
)
def test_a_gradient_of_another_rank_may_hold_what_was_sent_since(rank, record, clock, may_be):
    first, other = placed(1, "Torch.exp.0.forward", 1), placed(rank, record, clock)

    assert may_be_reduced(other, first.finding, [first, other]) is may_be
