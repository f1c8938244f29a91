"""The distance that sketches estimate is as near to the true one as docs/format.md says, and sees order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from torchparity import HostTensor
from torchparity.comparing.measuring.sketch import sketch_distance
from torchparity.comparing.measuring.statistics import compare_statistics
from torchparity.comparing.pairing.items import ItemPair, Side
from torchparity.kernels import reference
from torchparity.records import TensorLeaf

SHAPES = [(2, 3), (4, 10), (7, 64), (16, 128), (8, 768), (32, 100), (3, 50, 65), (64, 512), (2, 8, 128, 64)]


def sketch(values: object) -> bytes:
    kept = reference.statistics(HostTensor.from_numpy(np.asarray(values))).sketch
    assert kept is not None
    return kept


def differences(random: np.random.Generator, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Yield differences of two tensors as faults and rounding make them."""
    values = random.normal(size=shape)
    yield from (values, random.random(shape), np.exp(2 * values), random.standard_cauchy(shape), np.maximum(values, 0))
    yield np.multiply.outer(random.normal(size=shape[0]), random.normal(size=shape[1:]))
    yield np.where(np.arange(shape[-1]) == random.integers(shape[-1]), values, 0)
    yield np.broadcast_to(random.normal(size=shape[-1]), shape)
    yield np.broadcast_to(random.normal(size=(*shape[:-1], 1)), shape)
    yield np.where(random.random(shape) < 0.01, values, 0)
    yield np.ones(shape)
    yield np.arange(values.size, dtype=float)
    yield np.sin(np.arange(values.size) * random.random())
    yield from (values - values[::-1], values - np.roll(values, 1), values - np.roll(values, 1, -1))
    yield values.reshape(-1) - random.permutation(values.reshape(-1))
    rows = random.permutation(shape[0])[:2]
    swapped = values.copy()
    swapped[rows] = values[rows[::-1]]
    yield values - swapped


def test_the_estimate_is_within_its_stated_error():
    random = np.random.default_rng(2026)
    ratios = []
    for number in range(60):
        shape = SHAPES[number % len(SHAPES)]
        for difference in differences(random, shape):
            norm = float(np.linalg.norm(difference))
            if norm:
                base = random.normal(size=difference.shape)
                distance = sketch_distance(sketch(base + difference), sketch(base))
                ratios.append(distance / norm)
    ratios = np.array(ratios)

    assert np.mean((ratios > 0.4) & (ratios < 1.6)) > 0.95
    assert np.mean((ratios > 0.2) & (ratios < 2.1)) > 0.995
    assert 0.9 < np.sqrt(np.mean(ratios**2)) < 1.1


def test_constants_of_every_size_are_seen():
    ratios = np.array([sketch_distance(sketch(np.ones(n)), sketch(np.zeros(n))) / n**0.5 for n in range(2, 4000, 41)])

    assert ratios.min() > 0.4
    assert ratios.max() < 2.1


@given(
    hnp.arrays(np.int64, st.integers(2, 400), elements=st.integers(-(2**20), 2**20)), st.integers(0, 2**32), st.data()
)
@settings(deadline=None)
def test_sketches_are_linear(left, seed, data):
    right = np.random.default_rng(seed).integers(-(2**20), 2**20, left.size)
    factor = data.draw(st.integers(-9, 9))

    sums = [np.frombuffer(sketch(values), "<f8") for values in (left, right, left + factor * right)]

    assert (sums[0] + factor * sums[1] == sums[2]).all()


@given(st.integers(0, 10**6), st.integers(0, 127), st.integers(0, 127))
@settings(deadline=None)
def test_elements_of_one_group_that_change_places_are_always_seen(seed, one, other):
    values = np.random.default_rng(seed).normal(size=128)
    swapped = values.copy()
    swapped[[one, other]] = values[[other, one]]

    distance = sketch_distance(sketch(values), sketch(swapped))

    assert bool(distance > 0.3 * np.linalg.norm(values - swapped)) is (one != other)


def test_one_swap_in_256_is_missed():
    random = np.random.default_rng(9)
    values = np.arange(1 << 13)
    before, missed, swaps = sketch(values), 0, 2000
    for _ in range(swaps):
        one, other = random.integers(0, values.size, 2)
        swapped = values.copy()
        swapped[[one, other]] = values[[other, one]]
        missed += sketch(swapped) == before and one != other

    assert swaps / 256 * 0.3 < missed < swaps / 256 * 2


def rotary(length: int, size: int, first: int) -> np.ndarray:
    angles = np.outer(np.arange(first, first + length), 10_000.0 ** (-np.arange(0, size, 2) / size))
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1)


@pytest.mark.parametrize("shape", [(8, 16), (4, 128), (16, 768), (2, 3, 8, 8)])
def test_what_statistics_cannot_see_is_seen(shape):
    values = np.random.default_rng(4).normal(size=shape).astype(np.float32)
    others = {
        "rows swapped": values[[1, 0, *range(2, shape[0])]],
        "batch reversed": values[::-1],
        "rolled": np.roll(values, 1),
    }
    for other in others.values():
        moved = np.ascontiguousarray(other)
        assert sketch_distance(sketch(values), sketch(moved)) == pytest.approx(np.linalg.norm(values - moved), rel=0.9)
    heads = values.reshape(-1, shape[-1])
    turned, off_by_one = (heads * rotary(len(heads), shape[-1], first).astype(np.float32) for first in (0, 1))
    distance = np.linalg.norm(turned - off_by_one)
    assert 0.2 * distance < sketch_distance(sketch(turned), sketch(off_by_one)) < 2.1 * distance


def test_widths_may_differ():
    values = np.random.default_rng(5).normal(size=1000).astype(np.float32)
    narrow, wide = sketch(values), sketch(values.astype(np.float64))

    assert (len(narrow), len(wide)) == (32, 64)
    assert sketch_distance(narrow, wide) < 1e-7 * np.linalg.norm(values)
    assert sketch_distance(narrow, sketch(values + np.float32(1))) == pytest.approx(
        sketch_distance(wide, sketch(values + np.float32(1))), rel=1e-5
    )
    assert sketch_distance(narrow, narrow) == 0


@pytest.mark.parametrize("factor", [1.0, 8.0])
def test_a_distance_is_relative_to_the_finite_elements(factor):
    """A tensor whose largest element is 0 and whose smallest is -inf has no scale but the norm of the others."""
    random = np.random.default_rng(3)
    baseline = -np.abs(random.normal(size=81)) * factor
    baseline[0], baseline[1] = 0.0, -np.inf
    candidate = baseline * (1 + 1e-3)
    candidate[0] = 0.0

    comparison = compare_statistics(pair_of(candidate, baseline))

    assert comparison.deviation == pytest.approx(1e-3, rel=0.6)


def pair_of(candidate: np.ndarray, baseline: np.ndarray) -> ItemPair:
    sides = []
    for values in (candidate, baseline):
        statistics = reference.statistics(HostTensor.from_numpy(values.astype(np.float32)))
        leaf = TensorLeaf(dtype="torch.float32", shape=values.shape, statistics=statistics)
        sides.append(Side("Torch.log.0.forward.output.0", leaf))
    return ItemPair("Torch.log.0.forward", "output", "forward", *sides, True)
