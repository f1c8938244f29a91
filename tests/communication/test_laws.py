"""Every collective keeps its law, and an error on one rank breaks it: by values, by statistics, without a baseline."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.support.rank_runs import RankRun
from torchparity.communication.entry import check_laws

RANKS, ROOT = 4, 1
RNG = np.random.default_rng(7)
SENT = [RNG.normal(size=(RANKS, 300)).astype(np.float32) for _ in range(RANKS)]
EMPTY = np.zeros(300, np.float32)
OF_EACH_TASK = pytest.mark.parametrize("task", ["statistics", "tensor"])
REDUCTIONS = {"SUM": np.sum, "AVG": np.mean, "MAX": np.max, "MIN": np.min}


def all_reduce(op):
    result = REDUCTIONS[op](SENT, axis=0)
    return [("all_reduce", [SENT[rank]], [result], {"op": f"RedOpType.{op}"}) for rank in range(RANKS)]


def reduced_part(rank):
    return np.sum([sent[rank] for sent in SENT], axis=0)


def gathered(rank):
    return [sent[0] for sent in SENT]


CALLS = {
    **{f"all_reduce {op}": all_reduce(op) for op in REDUCTIONS},
    "reduce": [
        ("reduce", [sent], [np.sum(SENT, axis=0) if rank == ROOT else sent], {"dst": ROOT})
        for rank, sent in enumerate(SENT)
    ],
    "broadcast": [("broadcast", [sent], [SENT[ROOT]], {"src": ROOT}) for sent in SENT],
    "all_gather": [("all_gather", [[EMPTY] * RANKS, sent[0]], [gathered(0), sent[0]], {}) for sent in SENT],
    "all_gather_into_tensor": [
        ("all_gather_into_tensor", [np.zeros(1200, np.float32), sent[0]], [np.concatenate(gathered(0)), sent[0]], {})
        for sent in SENT
    ],
    "gather": [
        ("gather", [sent[0], [EMPTY] * RANKS], [sent[0], gathered(0)], {"dst": ROOT})
        if rank == ROOT
        else ("gather", [sent[0]], [sent[0]], {"dst": ROOT})
        for rank, sent in enumerate(SENT)
    ],
    "scatter": [
        ("scatter", [EMPTY, list(SENT[ROOT])], [SENT[ROOT][rank], list(SENT[ROOT])], {"src": ROOT})
        if rank == ROOT
        else ("scatter", [EMPTY], [SENT[ROOT][rank]], {"src": ROOT})
        for rank in range(RANKS)
    ],
    "reduce_scatter": [
        ("reduce_scatter", [EMPTY, list(sent)], [reduced_part(rank), list(sent)], {}) for rank, sent in enumerate(SENT)
    ],
    "reduce_scatter_tensor": [
        ("reduce_scatter_tensor", [EMPTY, sent.reshape(-1)], [reduced_part(rank), sent.reshape(-1)], {})
        for rank, sent in enumerate(SENT)
    ],
    "all_to_all": [
        ("all_to_all", [[EMPTY] * RANKS, list(sent)], [[other[rank] for other in SENT], list(sent)], {})
        for rank, sent in enumerate(SENT)
    ],
    "all_to_all_single": [
        ("all_to_all_single", [np.zeros_like(sent), sent], [np.stack([other[rank] for other in SENT]), sent], {})
        for rank, sent in enumerate(SENT)
    ],
}


def wrong(nest):
    """Return what a rank received with one element off by a tenth of the norm."""
    if isinstance(nest, list):
        return [wrong(nest[0]), *nest[1:]]
    changed = nest.copy()
    changed.reshape(-1)[17] += np.linalg.norm(nest) / 10
    return changed


def written(path, task, calls, faulty=None):
    run = RankRun(RANKS, task)
    for rank, (name, inputs, outputs, keywords) in enumerate(calls):
        place = 1 if name == "gather" and rank == ROOT else 0
        if rank == faulty:
            outputs = [*outputs[:place], wrong(outputs[place]), *outputs[place + 1 :]]
        run.call(rank, f"Distributed.{name}", inputs, outputs, **keywords)
    return run.write(path)


@OF_EACH_TASK
@pytest.mark.parametrize("name", CALLS)
def test_a_collective_that_is_right_keeps_its_law(name, task, tmp_path):
    report = check_laws(written(tmp_path / "run", task, CALLS[name]))

    assert report.broken == [] and sum(report.held.values()) > 0
    assert {law.law for law in report.unchecked} == {"replicas"}  # no parameters here


@OF_EACH_TASK
@pytest.mark.parametrize("name", CALLS)
def test_an_error_on_one_rank_breaks_the_law(name, task, tmp_path):
    faulty = ROOT if name in ("reduce", "gather") else 2
    report = check_laws(written(tmp_path / "run", task, CALLS[name], faulty))

    (law,) = report.broken
    assert law.group == tuple(range(RANKS)) and faulty in law.ranks
    assert law.records[faulty].startswith("Distributed.")
    by_totals = task == "statistics" and name in ("reduce_scatter_tensor", "all_to_all_single")
    assert by_totals or law.ranks == (faulty,)
    if task == "tensor" or name == "all_reduce SUM":
        assert 0.03 < law.measured.relative < 0.3
    assert f"rank{'s' if by_totals else ''} " in law.sentence() and "job.py, line 7" in law.sentence()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_any_order_of_summation_is_rounding(dtype, task, tmp_path):
    sent = [RNG.normal(size=500).astype(dtype) for _ in range(16)]
    run = RankRun(16, task)
    for rank, mine in enumerate(sent):
        total = np.zeros(500, dtype)
        for other in np.random.default_rng(rank).permutation(16):
            total = (total + sent[other]).astype(dtype)
        run.call(rank, "Distributed.all_reduce", [mine], [total])

    report = check_laws(run.write(tmp_path / "run"))

    assert report.held["all_reduce"] >= 16
    assert all("is not what rank 0 received" in law.clause for law in report.broken)  # the orders differ, that is all


@OF_EACH_TASK
def test_ranks_that_received_different_sums_are_named(task, tmp_path):
    calls = all_reduce("SUM")
    run = RankRun(RANKS, task)
    for rank, (name, inputs, outputs, _) in enumerate(calls):
        off = outputs[0] + (SENT[0] * 1e-5 if rank == 3 else 0)
        run.call(rank, f"Distributed.{name}", inputs, [off.astype(np.float32)], op="RedOpType.PREMUL_SUM")

    report = check_laws(run.write(tmp_path / "run"))

    (law,) = report.broken
    assert law.ranks == (3,) and "is not what rank 0 received" in law.sentence()
    assert any("PREMUL_SUM" in entry.reason for entry in report.unchecked)


def test_integers_wrap_around_and_are_exact(tmp_path):
    run = RankRun(2, "tensor")
    for rank in range(2):
        total = np.array([2**31 - 1, 5], np.int32) + np.array([1, 1], np.int32)
        run.call(rank, "Distributed.all_reduce", [np.array([[2**31 - 1, 5], [1, 1]], np.int32)[rank]], [total])

    assert check_laws(run.write(tmp_path / "run")).broken == []


@pytest.mark.parametrize(("lost", "is_broken"), [(False, False), (True, True)])
def test_an_infinity_must_arrive(lost, is_broken, tmp_path):
    sent = [np.array([1, np.inf], np.float32), np.array([1, 2], np.float32)]
    result = np.array([2, 2 if lost else np.inf], np.float32)
    run = RankRun(2, "tensor")
    for rank in range(2):
        run.call(rank, "Distributed.all_reduce", [sent[rank]], [result])

    assert bool(check_laws(run.write(tmp_path / "run")).broken) is is_broken


def test_uneven_parts_are_cut_as_their_sizes_say(tmp_path):
    lengths = {0: [1, 3], 1: [2, 4]}
    sent = {rank: RNG.normal(size=(sum(each), 5)).astype(np.float32) for rank, each in lengths.items()}
    run = RankRun(2, "tensor")
    for rank in range(2):
        parts = [np.split(sent[other], [lengths[other][0]])[rank] for other in range(2)]
        sizes = [lengths[other][rank] for other in range(2)]
        received = np.concatenate(parts)
        run.call(rank, "Distributed.all_to_all_single", [received * 0, sent[rank], sizes, lengths[rank]], [received])

    report = check_laws(run.write(tmp_path / "run"))

    assert report.broken == [] and report.held["all_to_all"] == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"only": (0, 1, 3)}, "rank 2 has no record of it"),
        ({"dtype": np.float16}, "it mixes dtypes: torch.float16, torch.float32"),
        ({"op": "RedOpType.BXOR"}, "the reduction BXOR has no law here"),
        ({"output": []}, "what it received is not recorded, as of calls that send Python objects"),
        ({"op": "RedOpType.PRODUCT"}, "statistics cannot tell the product of tensors; record values"),
    ],
)
def test_a_law_that_cannot_be_checked_says_why(change, reason, tmp_path):
    run = RankRun(RANKS)
    for rank, (name, inputs, outputs, _) in enumerate(all_reduce("SUM")):
        sent = inputs[0].astype(change.get("dtype", np.float32)) if rank == 2 else inputs[0]
        outputs = change.get("output", outputs)
        run.call(rank, f"Distributed.{name}", [sent], outputs, op=change.get("op", "RedOpType.SUM"))

    report = check_laws(run.write(tmp_path / "run", only=change.get("only")))

    assert report.broken == []
    assert reason in {law.reason for law in report.unchecked}


def test_one_rank_alone_has_no_laws(tmp_path):
    run = RankRun(1)
    run.call(0, "Distributed.all_reduce", [EMPTY], [EMPTY])

    report = check_laws(run.write(tmp_path / "run"))

    assert report.headline() == "No law of communication could be checked."
    assert report.unchecked[0].reason == "the step has one rank, and a law needs several"
