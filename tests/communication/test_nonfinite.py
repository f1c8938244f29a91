"""Laws about nan, inf and integers that wrap around, on statistics: what is certain is told, no more."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.rank_runs import RankRun
from torchparity.communication.entry import check_laws

RANKS, SIZE = 3, 200
RNG = np.random.default_rng(3)
SENT = [RNG.normal(size=SIZE).astype(np.float32) for _ in range(RANKS)]
WRAPS = "the integers may leave the range of their dtype, which statistics cannot tell; record values"


def with_number(array, number, count=1):
    changed = array.copy()
    changed[5 : 5 + count] = number
    return changed


def report_of(path, name, received, sent=SENT, task="statistics", **keywords):
    run = RankRun(RANKS, task)
    for rank in range(RANKS):
        run.call(rank, f"Distributed.{name}", [sent[rank]], [received[rank]], **keywords)
    return check_laws(run.write(path))


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("op", ["SUM", "AVG", "MAX"])
def test_what_is_not_finite_and_was_not_sent_breaks_the_law(op, number, tmp_path):
    result = {"SUM": np.sum, "AVG": np.mean, "MAX": np.max}[op](SENT, axis=0)
    received = [result, with_number(result, number), result]

    (law,) = report_of(tmp_path / "run", "all_reduce", received, op=f"RedOpType.{op}").broken

    assert law.ranks == (1,) and "it has nan or inf where it must be finite" in law.sentence()


def test_a_sum_that_may_overflow_is_not_judged(tmp_path):
    sent = [with_number(each, 3e38) for each in SENT]
    result = with_number(np.sum(SENT, axis=0), np.inf)

    report = report_of(tmp_path / "run", "all_reduce", [result] * RANKS, sent)

    assert report.broken == [] and any("record values" in law.reason for law in report.unchecked)


def test_a_nan_that_was_sent_must_arrive(tmp_path):
    result = with_number(np.sum(SENT, axis=0), np.nan)
    sent = [SENT[0], with_number(SENT[1], np.nan), SENT[2]]

    assert report_of(tmp_path / "right", "all_reduce", [result] * RANKS, sent).broken == []
    (law,) = report_of(tmp_path / "lost", "all_reduce", [result, result, np.sum(SENT, axis=0)], sent).broken
    assert law.ranks == (2,) and "it is finite where nan or inf must be" in law.sentence()


@pytest.mark.parametrize(
    ("arrived", "is_broken"),
    [
        (with_number(SENT[1], np.nan), False),
        (with_number(SENT[1], np.nan, 2), True),
        (with_number(SENT[1], np.inf), True),
        (with_number(SENT[1] * np.float32(1.001), np.nan), True),
    ],
)
def test_a_copy_has_the_same_nan_and_the_same_finite_elements(arrived, is_broken, tmp_path):
    root = with_number(SENT[1], np.nan)
    sent = [SENT[0], root, SENT[2]]

    report = report_of(tmp_path / "run", "broadcast", [root, root, arrived], sent, src=1)

    assert [law.ranks for law in report.broken] == ([(2,)] if is_broken else [])


@pytest.mark.parametrize(("factor", "may_wrap"), [(1, False), (100, True)])
def test_integers_that_may_wrap_around_are_not_judged_by_statistics(factor, may_wrap, tmp_path):
    sent = [(np.arange(SIZE) % 3 * factor).astype(np.uint8) for _ in range(RANKS)]
    result = np.sum(sent, axis=0, dtype=np.uint8)

    report = report_of(tmp_path / "run", "all_reduce", [result] * RANKS, sent)

    assert report.broken == []
    assert (WRAPS in {law.reason for law in report.unchecked}) is may_wrap
