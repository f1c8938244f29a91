"""The kernel that widens 16-bit numbers to float32; torch's own copy takes twice as long, a number at a time."""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl

FLOAT16, BFLOAT16 = range(2)
_FLOAT16 = tl.constexpr(FLOAT16)


@triton.jit(do_not_specialize=["narrow", "wide", "count"])
def widen(narrow, wide, count, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """Store `count` numbers from one address as float32 at another; both are multiples of 16."""
    element = tl.float16 if KIND == _FLOAT16 else tl.bfloat16
    source = tl.multiple_of(narrow.to(tl.pointer_type(element)), 16)
    target = tl.multiple_of(wide.to(tl.pointer_type(tl.float32)), 16)
    first = tl.program_id(0).to(tl.int64) * BLOCK
    places = tl.arange(0, BLOCK)
    if first + BLOCK <= count:
        tl.store(target + first + places, tl.load(source + first + places).to(tl.float32))
    else:
        inside = first + places < count
        value = tl.load(source + first + places, mask=inside, other=0.0)
        tl.store(target + first + places, value.to(tl.float32), mask=inside)
