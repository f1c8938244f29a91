"""The loop over float32 as LLVM instructions: explicit vectors and software prefetch.

Memory that is not in a cache is read half as fast again when it is prefetched a page ahead: the
processor's own prefetch ends at a page. numba can express neither prefetch nor vectors of a given
width, so the loop over a block is written with llvmlite. A turn of the loop takes one group of a
sketch (`signs.py`): its eight vectors, by a fast Walsh-Hadamard transform, are added to the eight sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from platform import machine
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from torchparity.kernels import signs

_LANES = signs.LANES  # numbers in a vector; LLVM splits it where the processor's are shorter
_VECTORS = signs.SUMS
_CHAINS = 2  # independent sums, so that no addition waits for the one before
PORTION = signs.GROUP
_AHEAD = 4096  # bytes: a page
_HAS_MASKS = machine() in ("x86_64", "AMD64")  # comparisons are bits, or soon made so

_LONG, _WORD, _FLOAT = ir.IntType(64), ir.IntType(32), ir.FloatType()
_FLOATS, _WORDS = ir.VectorType(_FLOAT, _LANES), ir.VectorType(_WORD, _LANES)
_BYTE_POINTER = ir.IntType(8).as_pointer()
# No "nnan" for sums: they must show a nan. Extremes are meaningless where there is one.
_ANY_ORDER, _NO_NAN = ("reassoc", "contract", "nsz"), ("nnan", "nsz", "reassoc")
Sums = tuple[Any, Any, Any, Any]  # total, squares, largest, smallest


def _vector_extreme(name: str) -> Any:
    """Return max or min as the one instruction that LLVM turns into vectors.

    numba's own comparisons keep their branches, and the loop stays scalar. The result is
    meaningless where there is a nan, which the sums of the same block tell.
    """

    @intrinsic
    def extreme(typing_context: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = arguments[0].type
            function = builder.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind, kind]))
            return builder.call(function, arguments, fastmath=_NO_NAN)

        return left(left, left), generate

    return extreme


larger, smaller = _vector_extreme("llvm.maxnum"), _vector_extreme("llvm.minnum")


def _call(builder: Any, name: str, arguments: Sequence[Any], result: Any, flags: Sequence[str] = ()) -> Any:
    """Call one of LLVM's own functions; llvmlite does not know how those on vectors are spelt."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, arguments, fastmath=flags)


def _joined(builder: Any, left: Sums, right: Sums) -> Sums:
    """Add two sets of sums, lane by lane."""
    return (
        builder.fadd(left[0], right[0], flags=_ANY_ORDER),
        builder.fadd(left[1], right[1], flags=_ANY_ORDER),
        _call(builder, f"llvm.maxnum.v{_LANES}f32", [left[2], right[2]], _FLOATS, _NO_NAN),
        _call(builder, f"llvm.minnum.v{_LANES}f32", [left[3], right[3]], _FLOATS, _NO_NAN),
    )


def _read(builder: Any, place: Any) -> Any:
    """Return the vector at an address, and prefetch the one a page ahead."""
    ahead = builder.gep(builder.bitcast(place, _BYTE_POINTER), [_LONG(_AHEAD)])
    _call(builder, "llvm.prefetch.p0i8", [ahead, _WORD(0), _WORD(2), _WORD(1)], ir.VoidType())
    return builder.load(place, align=4)


def _of_one_vector(builder: Any, numbers: Any) -> Sums:
    """Return the sums of a vector."""
    return numbers, builder.fmul(numbers, numbers, flags=_ANY_ORDER), numbers, numbers


def _zeros(builder: Any, vectors: Sequence[Any]) -> Any:
    """Return how many of a group's numbers are zero: as the bits of two words, or lane by lane."""
    empty = ir.Constant(_FLOATS, [0.0] * _LANES)
    masks = [builder.fcmp_ordered("==", numbers, empty) for numbers in vectors]
    if not _HAS_MASKS:
        lanes = reduce(builder.add, [builder.zext(mask, _WORDS) for mask in masks])
        return builder.zext(_call(builder, f"llvm.vector.reduce.add.v{_LANES}i32", [lanes], _WORD), _LONG)
    while len(masks) > 2:
        both = ir.Constant(ir.VectorType(_WORD, 2 * masks[0].type.count), list(range(2 * masks[0].type.count)))
        masks = [builder.shuffle_vector(*pair, both) for pair in zip(masks[::2], masks[1::2], strict=True)]
    counts = [_call(builder, "llvm.ctpop.i64", [builder.bitcast(mask, _LONG)], _LONG) for mask in masks]
    return builder.add(*counts)


def _repeated(builder: Any, number: Any) -> Any:
    """Return a number in every lane."""
    alone = builder.insert_element(ir.Constant(_FLOATS, ir.Undefined), number, _WORD(0))
    return builder.shuffle_vector(alone, ir.Constant(_FLOATS, ir.Undefined), ir.Constant(_WORDS, [0] * _LANES))


def _group_word(builder: Any, group: Any) -> Any:
    """Return the byte of a group as `signs.group_words` does."""
    word = builder.add(builder.trunc(group, _WORD), _WORD(signs.SEED))
    word = builder.xor(word, builder.lshr(word, _WORD(signs.FIRST_SHIFT)))
    word = builder.mul(word, _WORD(signs.FIRST_FACTOR))
    word = builder.xor(word, builder.lshr(word, _WORD(signs.SECOND_SHIFT)))
    word = builder.mul(word, _WORD(signs.SECOND_FACTOR))
    word = builder.xor(word, builder.lshr(word, _WORD(signs.THIRD_SHIFT)))
    return builder.and_(word, _WORD(0xFF))


def _flip_signs(*vectors: int) -> Any:
    """Return the shared signs of some of a group's vectors, multiplied."""
    flips = np.logical_xor.reduce([signs.shared_flips(vector) for vector in vectors])
    return ir.Constant(_FLOATS, np.where(flips, -1.0, 1.0).tolist())


def _sum_and_difference(builder: Any, left: Any, right: Any, factor: Any | None) -> tuple[Any, Any]:
    """Return two vectors added and subtracted, the right one with signs."""
    if factor is None:
        return builder.fadd(left, right, flags=_ANY_ORDER), builder.fsub(left, right, flags=_ANY_ORDER)
    name = f"llvm.fmuladd.v{_LANES}f32"
    added = _call(builder, name, [right, factor, left], _FLOATS, _ANY_ORDER)
    return added, _call(builder, name, [builder.fneg(right), factor, left], _FLOATS, _ANY_ORDER)


def _transformed(builder: Any, vectors: Sequence[Any]) -> list[Any]:
    """Return the Walsh-Hadamard transform of a group's vectors, their shared signs applied.

    Most signs are applied where a vector is added to another: a processor that has units for sums and others for
    products with a sum is busy on all of them, and the product with a sign is exact. Those of vectors 2 and 6 are
    left out of the first stage; vector 0 has none.
    """
    rows = list(vectors)
    rows[4] = builder.fmul(rows[4], _flip_signs(4), flags=_ANY_ORDER)
    factors: tuple[dict[int, Any], ...] = (
        {1: _flip_signs(1), 3: _flip_signs(2, 3), 5: _flip_signs(5), 7: _flip_signs(6, 7)},
        {2: _flip_signs(2), 3: _flip_signs(2), 6: _flip_signs(6), 7: _flip_signs(6)},
        {},
    )
    for stage, by_vector in enumerate(factors):
        for low in range(_VECTORS):
            high = low | 1 << stage
            if high != low:
                rows[low], rows[high] = _sum_and_difference(builder, rows[low], rows[high], by_vector.get(high))
    return rows


def _signed(builder: Any, table: Any, group: Any, so_far: Sequence[Any], vectors: Sequence[Any]) -> list[Any]:
    """Add a group's vectors to the sums of the sketch, lane by lane."""
    word = _group_word(builder, group)
    first = builder.shl(builder.zext(word, _LONG), _LONG(3))
    sums = []
    for number, (total, row) in enumerate(zip(so_far, _transformed(builder, vectors), strict=True)):
        sign = _repeated(builder, builder.load(builder.gep(table, [_LONG(0), builder.add(first, _LONG(number))])))
        sums.append(builder.fadd(total, builder.fmul(row, sign, flags=_ANY_ORDER), flags=_ANY_ORDER))
    return sums


def _sketch_over_lanes(builder: Any, sums: Sequence[Any]) -> list[Any]:
    """Add up the lanes of the sketch's sums, each with its sign."""
    total = []
    for number, lanes in enumerate(sums):
        lane_signs = ir.Constant(_FLOATS, signs.PLACE_SIGNS[number, :_LANES].tolist())
        signed = builder.fmul(lanes, lane_signs, flags=_ANY_ORDER)
        total.append(_call(builder, f"llvm.vector.reduce.fadd.v{_LANES}f32", [_FLOAT(0.0), signed], _FLOAT, _ANY_ORDER))
    return total


def _over_lanes(builder: Any, sums: Sums, zeros: Any) -> list[Any]:
    """Add up the lanes."""
    added = [
        _call(builder, f"llvm.vector.reduce.fadd.v{_LANES}f32", [_FLOAT(0.0), lanes], _FLOAT, _ANY_ORDER)
        for lanes in sums[:2]
    ]
    largest = _call(builder, f"llvm.vector.reduce.fmax.v{_LANES}f32", [sums[2]], _FLOAT, _NO_NAN)
    smallest = _call(builder, f"llvm.vector.reduce.fmin.v{_LANES}f32", [sums[3]], _FLOAT, _NO_NAN)
    return [*added, builder.uitofp(zeros, _FLOAT), largest, smallest]


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    address, count, first_group = arguments
    words = ir.Constant(ir.ArrayType(_FLOAT, signs.WORD_SIGNS.size), signs.WORD_SIGNS.reshape(-1).tolist())
    table = cgutils.global_constant(builder, "sketch_signs", words)  # type: ignore[no-untyped-call]
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    repeated = _repeated(builder, builder.load(builder.inttoptr(address, _FLOAT.as_pointer())))
    empty = ir.Constant(_FLOATS, [0.0] * _LANES)
    begin = (empty, empty, repeated, repeated)
    builder.branch(loop)

    builder.position_at_end(loop)
    index, zeros_so_far = builder.phi(_LONG), builder.phi(_LONG)
    so_far: list[Any] = [tuple(builder.phi(part.type) for part in begin) for _ in range(_CHAINS)]
    sketch = [builder.phi(_FLOATS) for _ in range(_VECTORS)]
    place = builder.inttoptr(builder.add(address, builder.shl(index, _LONG(2))), _FLOATS.as_pointer())
    read = [_read(builder, builder.gep(place, [_LONG(number)])) for number in range(_VECTORS)]
    sums = list(so_far)
    for number, vector in enumerate(read):
        sums[number % _CHAINS] = _joined(builder, sums[number % _CHAINS], _of_one_vector(builder, vector))
    zeros = builder.add(zeros_so_far, _zeros(builder, read))
    group = builder.add(first_group, builder.lshr(index, _LONG(PORTION.bit_length() - 1)))
    signed = _signed(builder, table, group, sketch, read)
    following = builder.add(index, _LONG(PORTION))
    builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
    phis = [index, zeros_so_far, *sketch, *(phi for old in so_far for phi in old)]
    starts = [_LONG(0), _LONG(0), *([empty] * _VECTORS), *(begin * _CHAINS)]
    values = [following, zeros, *signed, *(value for new in sums for value in new)]
    for phi, start, value in zip(phis, starts, values, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(value, loop)

    builder.position_at_end(after)
    for other in sums[1:]:
        sums[0] = _joined(builder, sums[0], other)
    every = [*_over_lanes(builder, sums[0], zeros), *_sketch_over_lanes(builder, signed)]
    return context.make_tuple(builder, signature.return_type, every)


@intrinsic
def _sums(typing_context: Any, address: Any, count: Any, first_group: Any) -> Any:
    """Return total, squares, zeros, largest, smallest and sketch of float32 at an address: one PORTION or several."""
    result = types.UniTuple(types.float32, 5 + _VECTORS)  # type: ignore[no-untyped-call]
    return result(types.int64, types.int64, types.int64), _generate


sums_of_floats: Any = _sums
