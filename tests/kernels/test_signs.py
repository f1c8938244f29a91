"""The signs of a sketch are those of the format's page, and tell places apart."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from tests.support.sketches import group_byte, places, signs, sums_by_definition
from torchparity.kernels.signs import GROUP, PLACES, group_words, signs_of, sketch_sums


def test_the_constants_are_those_of_the_format():
    groups = [*range(300), 2**24, 2**32 - 1, 2**32 + 5]

    assert places() == PLACES
    assert [int(group_words(group, 1)[0]) for group in groups] == list(map(group_byte, groups))
    assert group_words(7, 100).tolist() == [group_byte(group) for group in range(7, 107)]
    assert signs_of([places()[5] ^ group_byte(3)])[0].tolist() == signs(3 * GROUP + 5)


def test_sums_are_those_of_the_format_wherever_a_part_begins():
    values = np.random.default_rng(0).normal(size=1000)
    for start in (0, 1, 127, 128, 500, 999):
        parts = sketch_sums(values[:start], 0) + sketch_sums(values[start:], start)
        assert np.allclose(parts, sums_by_definition(values), rtol=0, atol=1e-12)


def test_no_two_places_of_a_group_have_equal_or_opposite_signs():
    assert not any(left ^ right in (0, 0xFF) for left, right in combinations(places(), 2))


def test_places_of_two_groups_are_confused_with_a_probability_of_one_in_256():
    words = group_words(0, 4000).astype(np.int64)
    every = (np.frombuffer(places(), np.uint8)[None, :] ^ words[:, None]).reshape(-1)
    random = np.random.default_rng(1)
    left, right = random.integers(0, every.size, (2, 2_000_000))
    is_other = left // GROUP != right // GROUP

    share = (every[left] == every[right])[is_other].mean()

    assert 0.9 / 256 < share < 1.1 / 256


def test_each_sum_has_as_many_of_either_sign():
    means = signs_of(group_words(0, 1 << 16)).mean(axis=0)

    assert np.abs(means).max() < 0.02
