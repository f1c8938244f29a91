"""The sums of a sketch (`signs.py`) of numbers that are all finite, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from torchparity.kernels.row import SKETCH
from torchparity.kernels.signs import (
    FIRST_FACTOR,
    FIRST_SHIFT,
    GROUP,
    PLACE_SIGNS,
    PLACES,
    SECOND_FACTOR,
    SECOND_SHIFT,
    SEED,
    SUMS,
    THIRD_SHIFT,
    WORD_SIGNS,
)

_WORD = 0xFFFFFFFF
_PLACES = np.frombuffer(PLACES, np.uint8)
Row = npt.NDArray[np.float64]


@njit(nogil=True, cache=True)
def _group_word(group: int) -> Any:
    """Return the byte of a group as `signs.group_words` does."""
    word = (np.uint64(group) + np.uint64(SEED)) & np.uint64(_WORD)
    word ^= word >> np.uint64(FIRST_SHIFT)
    word = (word * np.uint64(FIRST_FACTOR)) & np.uint64(_WORD)
    word ^= word >> np.uint64(SECOND_SHIFT)
    word = (word * np.uint64(SECOND_FACTOR)) & np.uint64(_WORD)
    word ^= word >> np.uint64(THIRD_SHIFT)
    return word & np.uint64(0xFF)


@njit(nogil=True, cache=True, error_model="numpy")
def add_signed(value: float, index: int, row: Row) -> None:
    """Add one element to the sketch of a row."""
    word = np.int64(_group_word(index // GROUP)) ^ np.int64(_PLACES[index % GROUP])
    for number in range(SUMS):
        row[SKETCH + number] += value * WORD_SIGNS[word, number]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def add_sketch(numbers: Any, start: int, stop: int, row: Row) -> None:
    """Add elements to the sketch of a row; `start` begins a group."""
    for first in range(start, stop, GROUP):
        block = numbers[first : min(stop, first + GROUP)]
        word = np.int64(_group_word(first // GROUP))
        for number in range(SUMS):
            signs = PLACE_SIGNS[number]
            total = 0.0
            for place in range(block.size):
                total += np.float64(block[place]) * signs[place]
            row[SKETCH + number] += total * WORD_SIGNS[word, number]


@njit(nogil=True, cache=True)
def part_start(count: int, part: int, parts: int) -> int:
    """Return where a part of a tensor begins that several cores share: with a group, and the one after the last."""
    return count if part == parts else count * part // parts // GROUP * GROUP


@njit(nogil=True, cache=True)
def sums_of_ones(count: int) -> Any:
    """Return the sketch of so many ones: that of an expanded number, but for the factor."""
    sums, of_place = np.zeros(SUMS), PLACE_SIGNS.sum(axis=1)
    for group in range(count // GROUP):
        word = np.int64(_group_word(group))
        for number in range(SUMS):
            sums[number] += of_place[number] * WORD_SIGNS[word, number]
    word = np.int64(_group_word(count // GROUP))
    for number in range(SUMS):
        sums[number] += PLACE_SIGNS[number, : count % GROUP].sum() * WORD_SIGNS[word, number]
    return sums
