"""The layout of a strided tensor: the numbers by which a kernel finds its elements in place.

The elements in the order of the tensor are vectors, of which some in a row are neighbours: a run. Runs lie in rows and
rows in planes, each at strides of their own, so that the vector of number v is found at

    v + v // a * after_run + v // a // b * after_row + v // a // b // c * after_plane

The kernel divides by a factor and a shift, and computes modulo 2 ** 32 (`triton_launch/strides.py`).
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

Layout = tuple[int, ...]  # factor and shift for a, b and c, then after_run, after_row and after_plane

_DIMENSIONS = 4
_MOST_VECTORS = 1 << 31
_WORD = 1 << 32


@lru_cache(maxsize=4096)
def layout_of(shape: tuple[int, ...], stride: tuple[int, ...], vector: int) -> Layout | None:
    """Return the layout of a tensor that is not empty; None where neighbours are not in whole vectors of so many."""
    sizes, strides = _collapsed(shape, stride)
    if len(sizes) > _DIMENSIONS or not strides or strides[0] != 1 or sizes[0] % vector:
        return None
    if any(step % vector for step in strides[1:]):
        return None
    missing = _DIMENSIONS - len(sizes)
    sizes = [sizes[0] // vector, *sizes[1:], *[1] * missing]
    strides = [1, *(step // vector for step in strides[1:]), *[0] * missing]
    reach = sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
    if max(reach, prod(sizes)) >= _MOST_VECTORS:
        return None
    after = [strides[place + 1] - sizes[place] * strides[place] for place in range(_DIMENSIONS - 1)]
    divisions = [number for size in sizes[:-1] for number in division_by(size)]
    return (*divisions, *(step % _WORD for step in after))


def _collapsed(shape: tuple[int, ...], stride: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Return sizes and strides from the innermost dimension on, of as few dimensions as there can be."""
    sizes: list[int] = []
    strides: list[int] = []
    for size, step in zip(reversed(shape), reversed(stride), strict=True):
        if size == 1:
            continue
        if sizes and step == sizes[-1] * strides[-1]:
            sizes[-1] *= size
        else:
            sizes.append(size)
            strides.append(step)
    return sizes, strides


def division_by(divisor: int) -> tuple[int, int]:
    """Return a factor f and a shift s: (n * f // 2 ** 32 + n) >> s is n // divisor for every n below 2 ** 31."""
    shift = (divisor - 1).bit_length()
    return _WORD * ((1 << shift) - divisor) // divisor + 1, shift
