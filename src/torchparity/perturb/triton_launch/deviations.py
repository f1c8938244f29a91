"""The kernel that reads both results once; `deviation.deviation_on_device` says the same with operators of torch."""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl


@triton.jit
def _beyond(value, floor):
    """Return numbers without what is near zero, as `softshrink` does."""
    return tl.where(value > floor, value - floor, tl.where(value < -floor, value + floor, 0.0))


@triton.jit(do_not_specialize=["count"])
def largest_deviation(original, perturbed, largest, count, floor, BLOCK: tl.constexpr):
    """Raise `largest`, which is zero before, to the largest deviation of two results of `count` elements."""
    programs = tl.num_programs(0)
    lanes = tl.arange(0, BLOCK)
    best = tl.zeros([BLOCK], tl.float32)
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK, count, programs * BLOCK):
        inside = start + lanes < count
        left = tl.load(original + start + lanes, mask=inside, other=0.0).to(tl.float32)
        right = tl.load(perturbed + start + lanes, mask=inside, other=0.0).to(tl.float32)
        distance = tl.abs(_beyond(left, floor) - _beyond(right, floor))
        deviation = tl.div_rn(distance, tl.maximum(tl.minimum(tl.abs(left), tl.abs(right)), floor))
        # The difference of nan and inf from themselves is nan.
        is_odd = (left - left != 0) | (right - right != 0)
        is_same = (left == right) | ((left != left) & (right != right))
        best = tl.maximum(best, tl.where(is_same, 0.0, tl.where(is_odd, float("inf"), deviation)))
    tl.atomic_max(largest, tl.max(best))
