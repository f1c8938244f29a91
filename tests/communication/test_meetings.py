"""Records of several ranks are paired by group and order, sends with their receives; clocks tell what came first."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.rank_runs import RankRun
from torchparity import open_run
from torchparity.communication.clocks import Clocks
from torchparity.communication.meetings import Meetings

X = np.arange(4, dtype=np.float32)
ALL_REDUCE, SEND, RECV = "Distributed.all_reduce", "Distributed.send", "Distributed.recv"
ISEND, IRECV, BATCH = "Distributed.isend", "Distributed.irecv", "Distributed.batch_isend_irecv"


@pytest.fixture
def meetings(tmp_path):
    return lambda run, **options: Meetings(open_run(run.write(tmp_path / "run", **options)).parts)


def pairs(found):
    """Return the records of each meeting by rank."""
    return [{rank: share.record.name for rank, share in meeting.shares.items()} for meeting in found.all]


def test_collectives_of_subgroups_are_counted_by_group(meetings):
    run = RankRun(4)
    for rank in range(4):
        if rank > 1:  # one more call of these ranks, so that the numbers of the records differ
            run.call(rank, ALL_REDUCE, [X], [X], group=(2, 3))
        run.call(rank, ALL_REDUCE, [X], [X])

    assert pairs(meetings(run)) == [
        {0: f"{ALL_REDUCE}.0.forward", 1: f"{ALL_REDUCE}.0.forward"}
        | {2: f"{ALL_REDUCE}.1.forward", 3: f"{ALL_REDUCE}.1.forward"},
        {2: f"{ALL_REDUCE}.0.forward", 3: f"{ALL_REDUCE}.0.forward"},
    ]


def test_two_groups_of_the_same_ranks_are_two(meetings):
    run = RankRun(2)
    for rank in range(2):
        run.call(rank, "Ops._c10d_functional.all_reduce", [X, "sum", "7"], [X])
        run.call(rank, "Ops._c10d_functional.all_reduce", [X, "sum", "8"], [X])

    found = meetings(run).all

    assert [(meeting.group.name, meeting.group.ranks) for meeting in found] == [("7", (0, 1)), ("8", (0, 1))]


def test_sends_and_receives_are_paired_by_both_ranks_tag_and_order(meetings):
    run = RankRun(3)
    run.call(0, SEND, [X, 2], [X, 2])
    run.call(0, ISEND, [X + 1], [X + 1], dst=2, tag=5)
    run.call(1, SEND, [X + 2, 2], [X + 2, 2])
    run.call(2, IRECV, [X], [X + 2], src=1)
    run.call(2, IRECV, [X], [X + 1], src=0, tag=5)
    run.call(2, RECV, [X, 0], [X, 0])

    found = pairs(meetings(run))

    assert {0: f"{SEND}.0.forward", 2: f"{RECV}.0.forward"} in found
    assert {0: f"{ISEND}.0.forward", 2: f"{IRECV}.1.forward"} in found
    assert {1: f"{SEND}.0.forward", 2: f"{IRECV}.0.forward"} in found


def test_a_batch_is_taken_apart(meetings):
    run = RankRun(2)
    for rank in range(2):
        other = 1 - rank
        operations = [
            {"op": "isend", "tensor": X + rank, "peer": other, "group": (0, 1)},
            {"op": "irecv", "tensor": X, "peer": other, "group": (0, 1)},
        ]
        after = [operations[0], operations[1] | {"tensor": X + other}]
        run.call(rank, BATCH, [operations], [after])

    found = meetings(run)

    assert sorted((meeting.root, *sorted(meeting.shares)) for meeting in found.all) == [(0, 0, 1), (1, 0, 1)]
    assert len(found.of(0, f"{BATCH}.0.forward")) == 2


def test_a_receive_from_anybody_belongs_to_the_only_sender(meetings):
    run = RankRun(3)
    run.call(1, SEND, [X, 0], [X, 0])
    run.call(0, RECV, [X], [X])
    run.call(2, RECV, [X], [X])

    found = meetings(run)

    assert {1: f"{SEND}.0.forward", 0: f"{RECV}.0.forward"} in pairs(found)
    assert found.left_out == {(2, f"{RECV}.0.forward"): "nobody recorded its send"}


def test_a_rank_that_was_not_recorded_is_missing(meetings):
    run = RankRun(3)
    for rank in range(3):
        run.call(rank, ALL_REDUCE, [X], [X])

    (meeting,) = meetings(run, only=(0, 2)).all

    assert meeting.missing == (1,)


def test_a_cause_has_a_smaller_clock_than_its_effect_over_a_pipeline(meetings):
    run = RankRun(3)
    for rank in range(3):
        if rank:
            run.call(rank, IRECV, [X, rank - 1], [X, rank - 1])
        run.call(rank, "Torch.exp", [X], [X])
        if rank < 2:
            run.call(rank, ISEND, [X, rank + 1], [X, rank + 1])

    found = meetings(run)
    clocks = Clocks(found)
    at = [list(found.parts[rank].records).index("Torch.exp.0.forward") for rank in range(3)]

    first, second, third = (clocks.before(rank, position) for rank, position in enumerate(at))
    assert first < second < third


def test_sends_around_a_ring_wait_for_nobody(meetings):
    run = RankRun(3)
    for rank in range(3):
        run.call(rank, "Torch.exp", [X], [X])
        run.call(rank, IRECV, [X, (rank - 1) % 3], [X, (rank - 1) % 3])
        run.call(rank, ISEND, [X, (rank + 1) % 3], [X, (rank + 1) % 3])
        run.call(rank, "Torch.log", [X], [X])

    clocks = Clocks(meetings(run))

    assert all(clocks.before(rank, 0) == 0 < clocks.before(other, 3) for rank in range(3) for other in range(3))


def test_ranks_that_never_meet_have_clocks_of_their_own(meetings):
    run = RankRun(4)
    for _ in range(3):
        for rank in (2, 3):
            run.call(rank, ALL_REDUCE, [X], [X], group=(2, 3))
    for rank in (0, 1):
        run.call(rank, ALL_REDUCE, [X], [X], group=(0, 1))

    clocks = Clocks(meetings(run))

    assert clocks.after(0, 0) == 1 and clocks.after(3, 2) == 3
