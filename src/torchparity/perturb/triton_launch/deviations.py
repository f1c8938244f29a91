"""The kernel that reads both results once; `deviation.deviation_on_device` says the same with operators of torch.

Numbers are taken for finite first: what is not makes the largest deviation of a program nan, and such a program looks
at its part again with care.
"""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl

FLOAT32, FLOAT16, BFLOAT16 = range(3)
_FLOAT16, _BFLOAT16 = tl.constexpr(FLOAT16), tl.constexpr(BFLOAT16)


@triton.jit
def _beyond(value, floor):
    """Return numbers without what is near zero, as `softshrink` does; nan stays nan."""
    return value - tl.minimum(tl.maximum(value, -floor), floor)


@triton.jit
def _deviations(left, right, floor, CAREFUL: tl.constexpr):
    """Return the deviations of a block of numbers; where no care is taken, nan of those that are not finite."""
    left, right = left.to(tl.float32), right.to(tl.float32)
    distance = tl.abs(_beyond(left, floor) - _beyond(right, floor))
    deviation = distance / tl.maximum(tl.minimum(tl.abs(left), tl.abs(right)), floor)
    if CAREFUL:
        is_same = (left == right) | ((left != left) & (right != right))
        deviation = tl.where(deviation == deviation, deviation, float("inf"))
        deviation = tl.where(is_same, 0.0, deviation)
    return deviation


@triton.jit
def _largest_of_part(original, perturbed, count, floor, BLOCK: tl.constexpr, CAREFUL: tl.constexpr):
    """Return the largest deviation that one program finds; nan where it found nan or inf and takes no care.

    Whole blocks are read without masks: of a count that may be any number a thread loads each number alone.
    """
    places = tl.arange(0, BLOCK)
    first, step = tl.program_id(0).to(tl.int64) * BLOCK, tl.num_programs(0).to(tl.int64) * BLOCK
    best = tl.zeros([BLOCK], tl.float32)
    for start in range(first, count - BLOCK + 1, step):
        left, right = tl.load(original + start + places), tl.load(perturbed + start + places)
        best = tl.maximum(best, _deviations(left, right, floor, CAREFUL), propagate_nan=tl.PropagateNan.ALL)
    rest = count // BLOCK * BLOCK
    if rest < count and rest % step == first:
        inside = rest + places < count
        left = tl.load(original + rest + places, mask=inside, other=0.0)
        right = tl.load(perturbed + rest + places, mask=inside, other=0.0)
        best = tl.maximum(best, _deviations(left, right, floor, CAREFUL), propagate_nan=tl.PropagateNan.ALL)
    return best


@triton.jit
def _numbers(address, KIND: tl.constexpr, ALIGNED: tl.constexpr):
    """Return an address as a pointer to numbers."""
    if KIND == _FLOAT16:
        numbers = address.to(tl.pointer_type(tl.float16))
    elif KIND == _BFLOAT16:
        numbers = address.to(tl.pointer_type(tl.bfloat16))
    else:
        numbers = address.to(tl.pointer_type(tl.float32))
    if ALIGNED:
        numbers = tl.multiple_of(numbers, 16)
    return numbers


@triton.jit(do_not_specialize=["original", "perturbed", "largest", "count", "floor"])
def largest_deviation(
    original, perturbed, largest, count, floor,
    ORIGINAL: tl.constexpr, PERTURBED: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Raise `largest`, which is zero before, to the largest deviation of two results of `count` elements.

    Addresses are plain numbers: who launches knows what is compiled for which.
    """
    left, right = _numbers(original, ORIGINAL, ALIGNED), _numbers(perturbed, PERTURBED, ALIGNED)
    best = _largest_of_part(left, right, count, floor, BLOCK, False)
    if tl.max((best != best).to(tl.int32)) > 0:
        best = _largest_of_part(left, right, count, floor, BLOCK, True)
    tl.atomic_max(largest.to(tl.pointer_type(tl.float32)), tl.max(best))
