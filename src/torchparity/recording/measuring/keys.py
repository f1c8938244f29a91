"""Keys of the measurement cache: tensors with equal keys show the same numbers.

A `ViewKey` stands for a tensor as a call shows it, a `ValuesKey` for the numbers it shows: views of one
storage that differ in shape alone have different view keys and one values key. Both begin with the
storage's generation, which changes when the storage is written: old entries are then never found again.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import torch

ViewKey = tuple[int | None, int, int, tuple[int, ...], tuple[int, ...], torch.dtype, bool, bool, bool]
Extent = int | tuple[tuple[int, ...], tuple[int, ...]]  # a count of contiguous elements, or shape and stride
ValuesKey = tuple[int, int, torch.dtype, bool, bool, Extent]


def view_key(
    generation: int | None,
    version: int,
    offset: int,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    dtype: torch.dtype,
    requires_grad: bool,
    is_negative: bool = False,
    is_conjugate: bool = False,
) -> ViewKey:
    """Return the key of a tensor as it is shown; `MeasurementCache.observe` builds the same tuple inline."""
    return generation, version, offset, shape, stride, dtype, requires_grad, is_negative, is_conjugate


def values_key(
    generation: int,
    offset: int,
    dtype: torch.dtype,
    extent: Extent,
    is_negative: bool = False,
    is_conjugate: bool = False,
) -> ValuesKey:
    """Return the key of the numbers that a tensor shows."""
    return generation, offset, dtype, is_negative, is_conjugate, extent


def view_keys(
    generations: Iterable[int | None],
    versions: Iterable[int],
    offsets: Iterable[int],
    shapes: Iterable[tuple[int, ...]],
    strides: Iterable[tuple[int, ...]],
    dtype: torch.dtype,
    need_gradients: Iterable[bool],
) -> Iterable[ViewKey]:
    """Return `view_key` of each of many tensors of one dtype, neither negative nor conjugate."""
    no = repeat(False)
    return zip(generations, versions, offsets, shapes, strides, repeat(dtype), need_gradients, no, no, strict=False)


def values_keys(
    generations: Iterable[int], offsets: Iterable[int], dtype: torch.dtype, extents: Iterable[Extent]
) -> Iterable[ValuesKey]:
    """Return `values_key` of each of many tensors of one dtype, neither negative nor conjugate."""
    no = repeat(False)
    return zip(generations, offsets, repeat(dtype), no, no, extents, strict=False)
