"""The kernels that measure tensors on a CUDA device: every chunk of several tensors in one launch.

A program reads one chunk and writes one row: sums in float64, extremes, counts and the
chunk's part of the CRC-32. Nothing is added up across programs here, so the result does not
depend on the order in which they run; `join.py` joins the rows when the step is over.

A kernel is compiled for one dtype and for tensors that begin at a multiple of 16 bytes or not: both decide how many
bytes a thread loads at a time.
"""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl

from torchparity.kernels import row as fields
from torchparity.kernels.triton_launch import chunks
from torchparity.kernels.triton_launch.checksum import checksum_of
from torchparity.kernels.triton_launch.chunks import device_chunk_of, device_programs_of
from torchparity.kernels.triton_launch.floats import measure_floats
from torchparity.kernels.triton_launch.integers import measure_integers

FEW = 3  # tensors that are arguments of a launch; more are in a table
_SEARCHED = tl.constexpr(256)  # entries of a table at a time
_FIELDS = tl.constexpr(fields.FIELDS)
_FLOAT32, _FLOAT16 = tl.constexpr(chunks.FLOAT32), tl.constexpr(chunks.FLOAT16)
_BFLOAT16 = tl.constexpr(chunks.BFLOAT16)
_FLOAT8_E4M3, _FLOAT8_E5M2 = tl.constexpr(chunks.FLOAT8_E4M3), tl.constexpr(chunks.FLOAT8_E5M2)
_INT64, _INT32 = tl.constexpr(chunks.INT64), tl.constexpr(chunks.INT32)
_INT16, _INT8 = tl.constexpr(chunks.INT16), tl.constexpr(chunks.INT8)


@triton.jit
def _typed(address, KIND: tl.constexpr, ALIGNED: tl.constexpr):
    """Return an address as a pointer to numbers."""
    if KIND == _FLOAT32:
        numbers = address.to(tl.pointer_type(tl.float32))
    elif KIND == _FLOAT16:
        numbers = address.to(tl.pointer_type(tl.float16))
    elif KIND == _BFLOAT16:
        numbers = address.to(tl.pointer_type(tl.bfloat16))
    elif KIND == _FLOAT8_E4M3:
        numbers = address.to(tl.pointer_type(tl.float8e4nv))
    elif KIND == _FLOAT8_E5M2:
        numbers = address.to(tl.pointer_type(tl.float8e5))
    elif KIND == _INT64:
        numbers = address.to(tl.pointer_type(tl.int64))
    elif KIND == _INT32:
        numbers = address.to(tl.pointer_type(tl.int32))
    elif KIND == _INT16:
        numbers = address.to(tl.pointer_type(tl.int16))
    elif KIND == _INT8:
        numbers = address.to(tl.pointer_type(tl.int8))
    else:
        numbers = address.to(tl.pointer_type(tl.uint8))
    if ALIGNED:
        numbers = tl.multiple_of(numbers, 16)
    return numbers


@triton.jit
def _measured(
    address, count, part, row, checksum, tables,
    KIND: tl.constexpr, ALIGNED: tl.constexpr, CHECKSUM: tl.constexpr, SIZE: tl.constexpr, IN_PAIRS: tl.constexpr,
):  # fmt: skip
    """Measure one chunk of a tensor."""
    chunk = device_chunk_of(count)
    first = part * chunk
    length = tl.minimum(chunk, count - first)
    numbers = _typed(address, KIND, ALIGNED)
    if KIND <= _FLOAT8_E5M2:
        measure_floats(numbers, first, length, (), row, False, KIND, SIZE, ALIGNED, IN_PAIRS)
    else:
        measure_integers(numbers, first, length, row)
    if CHECKSUM:
        remainder = checksum_of(address + first * SIZE, length * SIZE, tables.to(tl.pointer_type(tl.uint32)))
        tl.store(checksum, remainder)


@triton.jit(
    do_not_specialize=[
        *("address0", "count0", "address1", "count1", "address2", "count2", "results", "checksums", "tables"),
    ]
)
def measure_few(
    address0, count0, address1, count1, address2, count2, results, checksums, tables,
    KIND: tl.constexpr, ALIGNED: tl.constexpr, CHECKSUM: tl.constexpr, SIZE: tl.constexpr, IN_PAIRS: tl.constexpr,
):  # fmt: skip
    """Measure one chunk of one of three tensors, of which the last may not be there: their counts are 0.

    Addresses are plain numbers, so that no launch is compiled for the alignment of another.
    """
    program = tl.program_id(0).to(tl.int64)
    row = results.to(tl.pointer_type(tl.float64)) + program * _FIELDS
    checksum = checksums.to(tl.pointer_type(tl.uint32)) + program
    ends0 = device_programs_of(count0)
    ends1 = ends0 + device_programs_of(count1)
    address, count, part = address0, count0, program
    if program >= ends1:
        address, count, part = address2, count2, program - ends1
    elif program >= ends0:
        address, count, part = address1, count1, program - ends0
    _measured(address, count, part, row, checksum, tables, KIND, ALIGNED, CHECKSUM, SIZE, IN_PAIRS)


@triton.jit(do_not_specialize=["table", "rows", "results", "checksums", "tables"])
def measure_many(
    table, rows, results, checksums, tables,
    KIND: tl.constexpr, ALIGNED: tl.constexpr, CHECKSUM: tl.constexpr, SIZE: tl.constexpr, IN_PAIRS: tl.constexpr,
):  # fmt: skip
    """Measure one chunk of a tensor in a table: the first program of each, then their addresses, then their counts."""
    program = tl.program_id(0).to(tl.int64)
    row = results.to(tl.pointer_type(tl.float64)) + program * _FIELDS
    checksum = checksums.to(tl.pointer_type(tl.uint32)) + program
    starts = table.to(tl.pointer_type(tl.int64))
    numbers = tl.arange(0, _SEARCHED)
    tensor = program * 0 - 1
    for begin in range(0, rows, _SEARCHED):
        # The host writes tables between launches: `.cv` reads past cache lines that an earlier launch filled.
        start = tl.load(
            starts + begin + numbers, mask=begin + numbers < rows, other=0x7FFFFFFFFFFFFFFF, cache_modifier=".cv"
        )
        tensor += tl.sum((start <= program).to(tl.int64))
    part = program - tl.load(starts + tensor, cache_modifier=".cv")
    address = tl.load(starts + rows + tensor, cache_modifier=".cv")
    count = tl.load(starts + 2 * rows + tensor, cache_modifier=".cv")
    _measured(address, count, part, row, checksum, tables, KIND, ALIGNED, CHECKSUM, SIZE, IN_PAIRS)


@triton.jit(
    do_not_specialize=[
        *("address0", "address1", "address2", "count", "run_factor", "run_shift", "row_factor", "row_shift"),
        *("plane_factor", "plane_shift", "after_run", "after_row", "after_plane", "results"),
    ]
)
def measure_strided(
    address0, address1, address2, count, run_factor, run_shift, row_factor, row_shift, plane_factor, plane_shift,
    after_run, after_row, after_plane, results,
    KIND: tl.constexpr, SIZE: tl.constexpr, IN_PAIRS: tl.constexpr,
):  # fmt: skip
    """Measure one chunk of one of three tensors of the same count and layout; the last two may not be there."""
    program = tl.program_id(0).to(tl.int64)
    row = results.to(tl.pointer_type(tl.float64)) + program * _FIELDS
    programs = device_programs_of(count)
    address, part = address0, program
    if program >= 2 * programs:
        address, part = address2, program - 2 * programs
    elif program >= programs:
        address, part = address1, program - programs
    chunk = device_chunk_of(count)
    first = part * chunk
    length = tl.minimum(chunk, count - first)
    layout = (
        run_factor, run_shift, row_factor, row_shift, plane_factor, plane_shift, after_run, after_row, after_plane,
    )  # fmt: skip
    measure_floats(_typed(address, KIND, True), first, length, layout, row, True, KIND, SIZE, True, IN_PAIRS)
