"""Chunks: the elements of a tensor that each program of a launch takes, and how its threads share them.

And the numbers of dtypes.
"""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
from typing import Any

import triton
import triton.language as tl

CHUNK = 8192  # the fewest elements of a program
BLOCK = 8192  # elements of floating-point numbers that a program holds at a time
WARPS = 4  # of a program
THREADS = 32 * WARPS
MOST_PROGRAMS = 256  # of a tensor; a larger one has larger chunks
FLOAT32, FLOAT16, BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2, INT64, INT32, INT16, INT8, UINT8 = range(10)
PAIRS_SINCE = {FLOAT16: (8, 0), BFLOAT16: (9, 0)}  # the first devices that compute with two numbers in a register
_CHUNK, _MOST_PROGRAMS = tl.constexpr(CHUNK), tl.constexpr(MOST_PROGRAMS)
_THREADS = tl.constexpr(THREADS)


def chunk_of(count: Any) -> Any:
    """Return the elements that each program of a tensor takes; `count` may be an array."""
    return CHUNK * -(-count // (CHUNK * MOST_PROGRAMS))


def programs_of(count: Any) -> Any:
    """Return how many programs, and rows, a tensor has; `count` may be an array."""
    return -(-count // chunk_of(count))


@triton.jit
def device_chunk_of(count):
    """Return what `chunk_of` does, and the least chunk for a tensor that is not there."""
    return _least_chunks_of_each(_least_chunks(count)).to(tl.int64) * _CHUNK


@triton.jit
def device_programs_of(count):
    """Return what `programs_of` does, by a division of 32 bits: one of 64 bits is a long routine."""
    least_chunks = _least_chunks(count)
    of_each = _least_chunks_of_each(least_chunks)
    return ((least_chunks + of_each - 1) // of_each).to(tl.int64)


@triton.jit
def _least_chunks(count):
    return ((count + _CHUNK - 1) // _CHUNK).to(tl.uint32)


@triton.jit
def _least_chunks_of_each(least_chunks):
    """Return how many of the least chunks each program of a tensor takes."""
    return tl.maximum((least_chunks + _MOST_PROGRAMS - 1) // _MOST_PROGRAMS, 1)


@triton.jit
def in_threads(block, VECTOR: tl.constexpr):
    """Return a matrix whose first and last dimensions are what one thread loads: rows, and neighbours in a row."""
    ROWS: tl.constexpr = _THREADS * VECTOR // block.shape[1]
    return tl.reshape(block, [block.shape[0] // ROWS, ROWS, block.shape[1] // VECTOR, VECTOR])
