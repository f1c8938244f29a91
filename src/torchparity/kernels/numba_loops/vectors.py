"""The loop over float32 as LLVM instructions: explicit vectors and software prefetch.

Memory that is not in a cache is read half as fast again when it is prefetched a page ahead: the
processor's own prefetch ends at a page. numba can express neither prefetch nor vectors of a given
width, so the loop over a block is written with llvmlite. A turn of the loop takes one group of a
sketch (`signs.py`): its eight vectors, by a fast Walsh-Hadamard transform, are added to the eight sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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

_LONG, _WORD, _FLOAT = ir.IntType(64), ir.IntType(32), ir.FloatType()
_FLOATS, _WORDS = ir.VectorType(_FLOAT, _LANES), ir.VectorType(_WORD, _LANES)
_BYTE_POINTER = ir.IntType(8).as_pointer()
# No "nnan" for sums: they must show a nan. Extremes are meaningless where there is one.
_ANY_ORDER, _NO_NAN = ("reassoc", "contract", "nsz"), ("nnan", "nsz", "reassoc")
Sums = tuple[Any, Any, Any, Any, Any]  # total, squares, zeros, largest, smallest


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
        builder.add(left[2], right[2]),
        _call(builder, f"llvm.maxnum.v{_LANES}f32", [left[3], right[3]], _FLOATS, _NO_NAN),
        _call(builder, f"llvm.minnum.v{_LANES}f32", [left[4], right[4]], _FLOATS, _NO_NAN),
    )


def _of_one_vector(builder: Any, place: Any) -> Sums:
    """Return the sums of the vector at an index, and prefetch the one a page ahead."""
    ahead = builder.gep(builder.bitcast(place, _BYTE_POINTER), [_LONG(_AHEAD)])
    _call(builder, "llvm.prefetch.p0i8", [ahead, _WORD(0), _WORD(2), _WORD(1)], ir.VoidType())
    numbers = builder.load(place, align=4)
    is_zero = builder.fcmp_ordered("==", numbers, ir.Constant(_FLOATS, [0.0] * _LANES))
    squares = builder.fmul(numbers, numbers, flags=_ANY_ORDER)
    return numbers, squares, builder.zext(is_zero, _WORDS), numbers, numbers


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


def _transformed(builder: Any, vectors: Sequence[Any]) -> list[Any]:
    """Return the Walsh-Hadamard transform of a group's vectors, their shared signs applied first."""
    rows: list[Any] = []
    for number, vector in enumerate(vectors):
        flips = signs.shared_flips(number)
        mask = ir.Constant(_WORDS, [0x80000000 if flip else 0 for flip in flips])
        flipped = builder.xor(builder.bitcast(vector, _WORDS), mask) if any(flips) else vector
        rows.append(builder.bitcast(flipped, _FLOATS))
    for step in (1, 2, 4):
        for low in range(_VECTORS):
            if not low & step:
                left, right = rows[low], rows[low + step]
                rows[low] = builder.fadd(left, right, flags=_ANY_ORDER)
                rows[low + step] = builder.fsub(left, right, flags=_ANY_ORDER)
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


def _over_lanes(builder: Any, sums: Sums) -> list[Any]:
    """Add up the lanes."""
    added = [
        _call(builder, f"llvm.vector.reduce.fadd.v{_LANES}f32", [_FLOAT(0.0), lanes], _FLOAT, _ANY_ORDER)
        for lanes in sums[:2]
    ]
    zeros = builder.uitofp(_call(builder, f"llvm.vector.reduce.add.v{_LANES}i32", [sums[2]], _WORD), _FLOAT)
    largest = _call(builder, f"llvm.vector.reduce.fmax.v{_LANES}f32", [sums[3]], _FLOAT, _NO_NAN)
    smallest = _call(builder, f"llvm.vector.reduce.fmin.v{_LANES}f32", [sums[4]], _FLOAT, _NO_NAN)
    return [*added, zeros, largest, smallest]


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    address, count, first_group = arguments
    words = ir.Constant(ir.ArrayType(_FLOAT, signs.WORD_SIGNS.size), signs.WORD_SIGNS.reshape(-1).tolist())
    table = cgutils.global_constant(builder, "sketch_signs", words)  # type: ignore[no-untyped-call]
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    repeated = _repeated(builder, builder.load(builder.inttoptr(address, _FLOAT.as_pointer())))
    empty = ir.Constant(_FLOATS, [0.0] * _LANES)
    begin = (empty, empty, ir.Constant(_WORDS, [0] * _LANES), repeated, repeated)
    builder.branch(loop)

    builder.position_at_end(loop)
    index = builder.phi(_LONG)
    so_far: list[Any] = [tuple(builder.phi(part.type) for part in begin) for _ in range(_CHAINS)]
    sketch = [builder.phi(_FLOATS) for _ in range(_VECTORS)]
    place = builder.inttoptr(builder.add(address, builder.shl(index, _LONG(2))), _FLOATS.as_pointer())
    read = [_of_one_vector(builder, builder.gep(place, [_LONG(number)])) for number in range(_VECTORS)]
    sums = list(so_far)
    for number, vector in enumerate(read):
        sums[number % _CHAINS] = _joined(builder, sums[number % _CHAINS], vector)
    group = builder.add(first_group, builder.lshr(index, _LONG(PORTION.bit_length() - 1)))
    signed = _signed(builder, table, group, sketch, [vector[0] for vector in read])
    following = builder.add(index, _LONG(PORTION))
    builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
    phis = [index, *sketch, *(phi for old in so_far for phi in old)]
    starts = [_LONG(0), *([empty] * _VECTORS), *(begin * _CHAINS)]
    values = [following, *signed, *(value for new in sums for value in new)]
    for phi, start, value in zip(phis, starts, values, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(value, loop)

    builder.position_at_end(after)
    for other in sums[1:]:
        sums[0] = _joined(builder, sums[0], other)
    every = [*_over_lanes(builder, sums[0]), *_sketch_over_lanes(builder, signed)]
    return context.make_tuple(builder, signature.return_type, every)


@intrinsic
def _sums(typing_context: Any, address: Any, count: Any, first_group: Any) -> Any:
    """Return total, squares, zeros, largest, smallest and sketch of float32 at an address: one PORTION or several."""
    result = types.UniTuple(types.float32, 5 + _VECTORS)  # type: ignore[no-untyped-call]
    return result(types.int64, types.int64, types.int64), _generate


sums_of_floats: Any = _sums
