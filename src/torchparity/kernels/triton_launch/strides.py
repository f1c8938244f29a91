"""The places of a tensor's elements: one after the other, or in runs of neighbours that strides set apart.

Queries, keys and values of an attention are such runs: read in place they need no copy. A vector is what a thread loads
at a time; runs and strides are whole numbers of vectors. What the kernel needs to know of a strided tensor is its
layout: nine numbers that `kernels/layouts.py` computes.
"""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import re

import triton
import triton.language as tl

SINCE = (3, 3)  # the first Triton whose functions hand tuples on to others
IS_SUPPORTED = tuple(map(int, re.findall(r"\d+", triton.__version__)[:2])) >= SINCE


@triton.jit
def _quotient(number, factor, shift):
    """Divide by what the host has turned into a factor and a shift; right below 2 ** 31, and masked beyond."""
    return (tl.umulhi(number, factor.to(tl.uint32)) + number) >> shift.to(tl.uint32)


@triton.jit
def elements(numbers, place, layout, STRIDED: tl.constexpr, VECTOR: tl.constexpr):
    """Return pointers to the elements at some places in the order of the tensor, whole vectors of them."""
    if STRIDED:
        vector = (place // VECTOR).to(tl.uint32)
        run = _quotient(vector, layout[0], layout[1])
        rows = _quotient(run, layout[2], layout[3])
        planes = _quotient(rows, layout[4], layout[5])
        vector += run * layout[6].to(tl.uint32) + rows * layout[7].to(tl.uint32) + planes * layout[8].to(tl.uint32)
        place = vector.to(tl.int64) * VECTOR + place % VECTOR
        if len(place.shape) == 2:
            place = tl.max_contiguous(tl.multiple_of(place, (1, VECTOR)), (1, VECTOR))
    return numbers + place
