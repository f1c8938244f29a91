"""The loop over float32 as LLVM instructions: explicit vectors and software prefetch.

Memory that is not in a cache is read half as fast again when it is prefetched a page ahead: the
processor's own prefetch ends at a page. numba can express neither prefetch nor vectors of a given
width, so the loop over a block is written with llvmlite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_LANES = 16  # numbers in a vector; LLVM splits it where the processor's are shorter
_VECTORS = 4  # independent sums, so that no addition waits for the one before
PORTION = _LANES * _VECTORS
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
    address, count = arguments
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    first = builder.load(builder.inttoptr(address, _FLOAT.as_pointer()))
    alone = builder.insert_element(ir.Constant(_FLOATS, ir.Undefined), first, _WORD(0))
    repeated = builder.shuffle_vector(alone, ir.Constant(_FLOATS, ir.Undefined), ir.Constant(_WORDS, [0] * _LANES))
    empty = ir.Constant(_FLOATS, [0.0] * _LANES)
    begin = (empty, empty, ir.Constant(_WORDS, [0] * _LANES), repeated, repeated)
    builder.branch(loop)

    builder.position_at_end(loop)
    index = builder.phi(_LONG)
    so_far = [tuple(builder.phi(part.type) for part in begin) for _ in range(_VECTORS)]
    place = builder.inttoptr(builder.add(address, builder.shl(index, _LONG(2))), _FLOATS.as_pointer())
    read = [_of_one_vector(builder, builder.gep(place, [_LONG(number)])) for number in range(_VECTORS)]
    sums: list[Any] = [_joined(builder, *both) for both in zip(so_far, read, strict=True)]
    following = builder.add(index, _LONG(PORTION))
    builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
    for old, new in zip(so_far, sums, strict=True):
        for phi, start, value in zip(old, begin, new, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(value, loop)
    index.add_incoming(_LONG(0), before)
    index.add_incoming(following, loop)

    builder.position_at_end(after)
    for other in sums[1:]:
        sums[0] = _joined(builder, sums[0], other)
    return context.make_tuple(builder, signature.return_type, _over_lanes(builder, sums[0]))


@intrinsic
def _sums(typing_context: Any, address: Any, count: Any) -> Any:
    """Return total, squares, zeros, largest and smallest of so many float32 at an address: one PORTION or several."""
    return types.UniTuple(types.float32, 5)(types.int64, types.int64), _generate  # type: ignore[no-untyped-call]


sums_of_floats: Any = _sums
