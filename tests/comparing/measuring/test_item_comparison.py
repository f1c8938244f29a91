"""What comparing two items gives: numbers, or the reason why there are none; one deviation for everybody."""

from __future__ import annotations

import math

import msgspec
import pytest

from tests.support.runs import write_linear_run
from torchparity.comparing import ChecksumDifference, NotCompared, Reason, StatisticsDifference, compare
from torchparity.comparing.measuring.checksums import compare_checksums
from torchparity.comparing.measuring.statistics import compare_statistics
from torchparity.comparing.measuring.values import ValueComparer
from torchparity.comparing.pairing.items import ItemPair, Side
from torchparity.records import PairMetrics, Statistics, TensorLeaf, ValueLeaf
from torchparity.storage import open_run


def tensor(value=1.0, **changed):
    facts = {"dtype": "torch.float32", "shape": (4,), "statistics": Statistics(max=value, min=0.5, mean=0.75, norm=2.0)}
    return TensorLeaf(**(facts | changed))


def pair(candidate, baseline, **changed):
    sides = [None if leaf is None else Side("Torch.exp.0.forward.output.0", leaf) for leaf in (candidate, baseline)]
    return ItemPair("Torch.exp.0.forward", "output", "forward", *sides, **changed)


def test_statistics_give_differences_as_numbers():
    comparison = compare_statistics(pair(tensor(1.5), tensor(1.0)))

    assert comparison.outcome == StatisticsDifference((0.5, 0.0, 0.0, 0.0), (0.5, 0.0, 0.0, 0.0))
    assert comparison.deviation == 0.5
    assert comparison.reason is comparison.metrics is comparison.checksums is None


def test_equal_infinities_have_no_difference_that_is_a_number():
    comparison = compare_statistics(pair(tensor(math.inf), tensor(math.inf)))

    assert math.isnan(comparison.statistics.absolute[0]) and math.isnan(comparison.statistics.relative[0])
    assert comparison.statistics.absolute[1:] == (0.0, 0.0, 0.0)
    assert comparison.deviation == 0.0, "they are equal all the same"


def test_a_statistic_that_is_no_number_gives_none():
    comparison = compare_statistics(pair(ValueLeaf("int", 3), ValueLeaf("str", "three")))

    assert comparison.outcome == StatisticsDifference((None,) * 4, (None,) * 4)
    assert comparison.deviation == 1.0  # a text is the same or another


def test_a_number_against_zero_is_infinitely_off():
    comparison = compare_statistics(pair(ValueLeaf("int", 3), ValueLeaf("int", 0)))

    assert comparison.statistics == StatisticsDifference((3,) * 4, (math.inf,) * 4)
    assert comparison.deviation == 1.0


@pytest.mark.parametrize("compare_pair", [compare_statistics, compare_checksums])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_an_item_of_one_run_alone_has_its_reason(compare_pair, is_replaced):
    comparison = compare_pair(pair(tensor(), None, is_replaced=is_replaced))

    assert comparison.outcome == NotCompared(Reason.NO_PARTNER)
    assert comparison.deviation == (math.inf if is_replaced else None)


@pytest.mark.parametrize(
    ("candidate", "baseline", "deviation"), [("aa", "aa", 0.0), ("aa", "bb", math.inf), ("aa", None, math.inf)]
)
def test_checksums_are_equal_or_infinitely_apart(candidate, baseline, deviation):
    comparison = compare_checksums(pair(tensor(checksum=candidate), tensor(checksum=baseline)))

    assert comparison.outcome == ChecksumDifference(candidate, baseline)
    assert comparison.deviation == deviation


def test_tensors_without_checksums_are_not_compared():
    comparison = compare_checksums(pair(tensor(), tensor()))

    assert (comparison.reason, comparison.deviation) == (Reason.NO_CHECKSUM, None)


def test_values_give_metrics_or_a_reason(tmp_path):
    part = open_run(write_linear_run(tmp_path / "run")).part()
    stored = part.records["Functional.linear.0.forward"].output[0]
    comparer = ValueComparer(part, part)

    equal = comparer.compare(pair(stored, stored))
    other_shape = comparer.compare(pair(stored, tensor(data_name="x.pt", shape=(5, 4))))
    lost = tensor(data_name="lost.pt", shape=stored.shape, statistics=None)
    unreadable = comparer.compare(pair(stored, lost))
    told = comparer.compare(pair(stored, msgspec.structs.replace(lost, statistics=stored.statistics)))
    without = comparer.compare(pair(stored, tensor(shape=stored.shape, statistics=stored.statistics)))

    assert isinstance(equal.outcome, PairMetrics) and equal.deviation == 0
    assert (other_shape.reason, other_shape.deviation) == (Reason.OTHER_SHAPE, math.inf)
    assert (unreadable.reason, unreadable.deviation) == (Reason.UNREADABLE, None)
    assert "lost.pt" in unreadable.outcome.detail
    # Values are missing, and the statistics tell that they are the same.
    assert (told.reason, told.deviation) == (Reason.UNREADABLE, 0.0)
    assert (without.reason, without.deviation) == (Reason.BASELINE_HAS_NO_VALUES, 0.0)


def test_a_comparison_cannot_be_changed():
    comparison = compare_statistics(pair(tensor(), tensor()))

    with pytest.raises(AttributeError):
        comparison.deviation = 1.0


def test_a_comparison_of_runs_gives_every_item(tmp_path):
    path = write_linear_run(tmp_path / "run")

    comparisons = list(compare(path, path).comparisons)

    assert [entry.name.rpartition("forward.")[2] for entry in comparisons] == [
        "input.0", "input.1", "input.2", "output.0"
    ]  # fmt: skip
    assert [entry.deviation for entry in comparisons] == [0.0] * 4
