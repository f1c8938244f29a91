"""The numbers of the model of rounding, each with its derivation; docs/precision.md has sources and measurements.

u is the unit roundoff: the largest relative error of rounding once to the nearest.
"""

from __future__ import annotations

import math
from functools import lru_cache

# By IEEE 754 and the OCP formats: 2^-p for p significant bits. Complex numbers round like their parts.
_UNIT = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "complex128": 2.0**-53,
    "complex64": 2.0**-24,
    "complex32": 2.0**-11,
    "float8_e4m3fn": 2.0**-4,
    "float8_e4m3fnuz": 2.0**-4,
    "float8_e5m2": 2.0**-3,
    "float8_e5m2fnuz": 2.0**-3,
    "float8_e8m0fnu": 0.5,
    "float4_e2m1fn_x2": 2.0**-2,
}
# The smallest positive number that a dtype keeps; float32 and bfloat16 may be flushed to zero below the normal ones.
_SMALLEST = {
    "float64": 2.0**-1022,
    "float32": 2.0**-126,
    "float16": 2.0**-24,
    "bfloat16": 2.0**-126,
    "complex128": 2.0**-1022,
    "complex64": 2.0**-126,
    "complex32": 2.0**-24,
    "float8_e4m3fn": 2.0**-9,
    "float8_e4m3fnuz": 2.0**-10,
    "float8_e5m2": 2.0**-16,
    "float8_e5m2fnuz": 2.0**-17,
    "float8_e8m0fnu": 2.0**-127,
    "float4_e2m1fn_x2": 0.5,
}
FLOAT32_UNIT = _UNIT["float32"]
# TF32 keeps 10 bits after the leading one of each factor, so its unit is 2^-11 (NVIDIA, A100 architecture).
TF32_UNIT = 2.0**-11

# The rms of the error of one rounding over mantissas is between 0.29 u (just below a power of two) and 0.58 u.
ROUNDING = 0.45
# From a typical (rms) error to the largest that is not worth a word: errors of norms concentrate, so 4 is far out.
MARGIN = 4.0
# The sketch estimates a norm from 8 signed sums: half to double of it (docs of the sketch).
ESTIMATE = 2.0
# The sketch's sums are float32 and added in another order by each device.
SKETCH_FLOOR = 4.0 * FLOAT32_UNIT
# An element beyond this is a mask's: a sketch or a norm of such a tensor shows nothing of the other elements.
MASKING = 1e30
# A deviation that is passed on exactly (a view, an addition) is measured in float64, but of a rounded norm.
EXACTLY = 1.001

# Roundings inside an elementwise operator, as multiples of ROUNDING u of the result. Arithmetic is correctly rounded
# everywhere; vendors' transcendentals are off by 1 to 4 units in the last place (CUDA C++ Programming Guide, table of
# single-precision functions; SLEEF 1.0; MKL VML "HA" 0.6).
ARITHMETIC = 1.0
FUSED = 2.0  # a + s b c: one rounding each, or fused
TRANSCENDENTAL = 5.0
COMPOSITE = 12.0  # a norm, a softmax, a loss: a dozen roundings one after the other
# A recurrent network, a module, an unknown operator: about a hundred roundings, the root of which counts.
UNKNOWN_ROUNDINGS = 30.0

# Errors of a sum of n terms are a random walk of sqrt(n) roundings, each of the partial sum's size: u sqrt(n) / 2 at
# worst (Higham, section 4.2; Higham and Mary 2019 for the root). Blocks of accumulators divide n (Blanchard, Higham and
# Mary 2020). Products go through n one by one inside of a block of a few hundred, or with 16 lanes where there is one
# column; sums have several vectors of accumulators and add those pairwise.
PRODUCT_BLOCK = 16.0
SUM_BLOCK = 128.0
# Gradients of convolutions are sums over images and pixels, one by one, and neighbours are alike: partial sums grow
# beyond a random walk before they cancel. Measured with oneDNN on 1 against 2 threads: 10 times SUM_BLOCK's walk.
PIXEL_BLOCK = 1.0
ALIKE = 3.0
# Beyond so many terms every implementation adds block sums pairwise or by threads.
LONGEST_WALK = 65_536.0

# The gain of an operator nobody described: relative errors grow by so much at most in 99.9 % of operators measured.
UNKNOWN_GAIN = 20.0
# The ratio of a tensor's rms to the standard deviation that a norm divides by, where nobody knows the mean.
UNKNOWN_CENTRE = 3.0
# Steepest slopes of activation functions: gelu 1.13, silu 1.10, mish 1.09, hardswish 1.5.
SLOPE = 1.5
# Largest curvature of activation functions (gelu 0.80, tanh 0.77, silu 0.5, softplus 0.25).
CURVATURE = 1.0
# Elements of a normal distribution closer to a threshold than e: 0.8 e / rms of them; gradients crowd around zero.
CROWDING = 4.0
# Fewer expected turns than this are no excuse: of relu's gradients one in five hundred with that many is named wrongly.
RARE = 1e-2
# Elements of an optimizer's step m / sqrt(v) beyond their rms.
STEP_PEAK = 5.0
# A step may turn round where its gradient is noise, which is twice the step; m / sqrt(v) of noise is a bit larger.
TURNED_STEP = 3.0


@lru_cache(maxsize=256)
def unit_of(dtype: str) -> float:
    """Return the unit roundoff of a dtype as torch prints it; 0 for integers, truth values and what is unknown."""
    return _UNIT.get(dtype.removeprefix("torch."), 0.0)


@lru_cache(maxsize=256)
def smallest_of(dtype: str) -> float:
    """Return the smallest positive number that a dtype is sure to keep; 0 for dtypes that do not round."""
    return _SMALLEST.get(dtype.removeprefix("torch."), 0.0)


@lru_cache(maxsize=4096)
def walk(terms: float, block: float = SUM_BLOCK) -> float:
    """Return the growth of rounding errors in a sum, in roundings of its partial sums' size."""
    return 1.0 + math.sqrt(min(max(terms, 1.0), LONGEST_WALK) / block)


def of_few(count: int) -> float:
    """Return how much further out the error of few numbers may be than that of many, whose norm concentrates.

    Means of 3 to 48 numbers, each of them one number, were off by 1.7 times MARGIN in the worst of 496,000.
    """
    return 1.0 + 1.0 / math.sqrt(max(count, 1))
