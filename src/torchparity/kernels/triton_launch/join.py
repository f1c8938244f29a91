"""The kernel that joins the rows of a tensor's chunks, so that one row for each tensor is all that reaches the host."""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl

from torchparity.kernels import row as fields

_LANES = tl.constexpr(32)  # rows that a program reads at a time
_FIELDS = tl.constexpr(fields.FIELDS)
_MAX, _MIN = tl.constexpr(fields.MAX), tl.constexpr(fields.MIN)


@triton.jit
def _store_extremes(rows, count, joined):
    """Store the largest and the smallest of all rows; past the last row, that one is read again."""
    lanes = tl.arange(0, _LANES)
    place = tl.minimum(lanes, count - 1) * _FIELDS
    largest, smallest = tl.load(rows + place + _MAX), tl.load(rows + place + _MIN)
    for begin in range(_LANES, count, _LANES):
        place = tl.minimum(begin + lanes, count - 1) * _FIELDS
        largest = tl.maximum(largest, tl.load(rows + place + _MAX))
        smallest = tl.minimum(smallest, tl.load(rows + place + _MIN))
    tl.store(joined + _MAX, tl.max(largest, axis=0))
    tl.store(joined + _MIN, tl.min(smallest, axis=0))


@triton.jit(do_not_specialize=["table", "tensors", "results"])
def join_chunks(table, tensors, results):
    """Join the rows of one tensor, in an order that depends on nothing but their number.

    The table has the address of each tensor's first row, then how many rows each has, then 1 for each of floating-point
    numbers. The extremes of the others are bits of an int64.
    """
    tensor = tl.program_id(0).to(tl.int64)
    words = table.to(tl.pointer_type(tl.int64)) + tensor
    address, count, is_float = tl.load(words), tl.load(words + tensors), tl.load(words + 2 * tensors)
    rows = address.to(tl.pointer_type(tl.float64))
    joined = results.to(tl.pointer_type(tl.float64)) + tensor * _FIELDS
    lanes, columns = tl.arange(0, _LANES), tl.arange(0, _FIELDS)
    sums = tl.zeros([_LANES, _FIELDS], tl.float64)
    for begin in range(0, count, _LANES):
        place = begin + lanes
        part = rows + place[:, None] * _FIELDS + columns[None, :]
        sums += tl.load(part, mask=(place < count)[:, None], other=0.0)
    tl.store(joined + columns, tl.sum(sums, axis=0), mask=(columns != _MAX) & (columns != _MIN))
    if is_float == 1:
        _store_extremes(rows, count, joined)
    else:
        _store_extremes(address.to(tl.pointer_type(tl.int64)), count, joined.to(tl.pointer_type(tl.int64)))
