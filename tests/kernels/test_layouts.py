"""A layout leads to the elements of a strided tensor in the tensor's order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchparity.kernels.layouts import Layout, division_by, layout_of


def places(layout: Layout, vectors: int) -> np.ndarray:
    """Return where each vector is, computed in words of 32 bits as the kernel does."""
    run_factor, run_shift, row_factor, row_shift, plane_factor, plane_shift, *steps = map(np.uint64, layout)
    word = np.uint64(2**32)

    def quotient(number: np.ndarray, factor: np.uint64, shift: np.uint64) -> np.ndarray:
        return (number * factor // word + number) % word >> shift

    place = np.arange(vectors, dtype=np.uint64)
    runs = quotient(place, run_factor, run_shift)
    rows = quotient(runs, row_factor, row_shift)
    planes = quotient(rows, plane_factor, plane_shift)
    return (place + runs * steps[0] + rows * steps[1] + planes * steps[2]) % word


@st.composite
def strided(draw: st.DrawFn) -> tuple[torch.Tensor, int]:
    """A view, in another order and of a part, of elements that are their own places in memory; and a vector's size."""
    vector = draw(st.sampled_from([4, 8]))
    sizes = [draw(st.integers(1, 7)) for _ in range(draw(st.integers(0, 4)))]
    tensor = torch.arange(int(np.prod(sizes)) * 4 * vector).view(*sizes, 4 * vector)
    for dimension, size in enumerate(sizes):
        first = draw(st.integers(0, size - 1))
        tensor = tensor.narrow(dimension, first, draw(st.integers(1, size - first)))
    runs = draw(st.integers(1, 4))
    tensor = tensor[..., : runs * vector]
    return tensor.permute(*draw(st.permutations(range(len(sizes)))), len(sizes)), vector


@given(strided())
def test_a_layout_leads_to_every_vector(drawn):
    tensor, vector = drawn
    layout = layout_of(tuple(tensor.shape), tensor.stride(), vector)
    true_places = (tensor.reshape(-1, vector)[:, 0] - tensor.flatten()[0]).numpy() // vector

    if layout is None:
        assert tensor.squeeze().dim() > 4  # more dimensions than a layout has
    else:
        assert places(layout, tensor.numel() // vector).tolist() == true_places.tolist()


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 12, 100, 641, 4096, 65_537, 2**31 - 1])
def test_a_division_is_right_up_to_the_largest_number(divisor):
    factor, shift = division_by(divisor)
    near = [0, 1, divisor - 1, divisor, 2**31 // divisor * divisor - 1, 2**31 - 1]

    assert factor < 2**32
    assert [(number * factor // 2**32 + number) >> shift for number in near] == [n // divisor for n in near]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.empty(64, 64).t(),  # neighbours are not neighbours in memory
        torch.empty(64, 62)[:, :56],  # rows begin within a vector
        torch.empty(64, 64)[:, :60],  # a part of a vector at the end of each row
        torch.empty(64, 64)[:, ::2],
        torch.empty(4, 4, 4, 4, 4, 8).permute(4, 0, 3, 1, 2, 5),
        torch.empty(2, 8, device="meta").expand(1 << 31, 2, 8),
        torch.empty(1, device="meta").as_strided((2, 8), (1 << 34, 1)),
    ],
    ids=["transposed", "odd rows", "odd runs", "every other", "six dimensions", "too many", "too far apart"],
)
def test_what_has_no_layout_is_told(tensor):
    assert layout_of(tuple(tensor.shape), tensor.stride(), 8) is None


def test_dimensions_that_can_be_one_are_one():
    narrow = torch.empty(3, 5, 7, 16, 32)[..., :16]

    assert layout_of(tuple(narrow.shape), narrow.stride(), 8) == layout_of((3 * 5 * 7 * 16, 16), (32, 1), 8)


def test_the_largest_that_has_a_layout_is_just_below_the_limit():
    assert layout_of((2, 8), ((1 << 34) - 8, 1), 8) is not None
    assert layout_of((1 << 30, 8), (16, 1), 8) is not None
    assert layout_of((1 << 31, 8), (16, 1), 8) is None
