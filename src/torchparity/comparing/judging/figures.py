"""The numbers of the judge, each with its reason; docs/verdicts.md names them. Those of rounding are precision's.

A deviation is relative to the norm of the baseline's tensor.
"""

from __future__ import annotations

from torchparity.comparing.precision.figures import ESTIMATE, TF32_UNIT, UNKNOWN_GAIN

# --- Deviations that are no matter of rounding -----------------------------------------------------------------------

# Off by more than this, a result of forward is no rounding, whoever is to blame, and a gradient or a result of the
# optimizer only if what it was made from explains it (sums that cancel). A choice, not a derivation: 13 units
# of bfloat16, the coarsest dtype that whole models compute in, and 800,000 of float32. Between two dtypes 0.5, since
# clipped values and choices near a threshold may turn.
NEVER_ROUNDING = 0.05
NEVER_ROUNDING_OF_DTYPES = 0.5
# From here on an operator is not linear in what its inputs are off by, and nothing can be expected of it: the second
# order of a smooth function is the square of this, 0.0025 of the output, and more than float32's rounding.
LARGEST_JUDGED_INPUT = 0.05
# What is expected of such inputs leaves the second order out, so that gradients may be off by a multiple of it. A
# choice: no clean pair of the fault bed needed more than 1.
MARGIN_OF_LARGE_INPUTS = 4.0
# Every operator may enlarge what its inputs are off by at least so much (x + x): those outputs need no closer look.
SMALLEST_GAIN = 2.0

# --- What may be made of a deviation ---------------------------------------------------------------------------------

# A call that nobody paired, or that received a number which was rounded: as an operator that nobody described.
GAIN_OF_A_CALL = UNKNOWN_GAIN
# One that copies, casts, or adds or multiplies a number: it passes on what is off as it is. A sketch may show half of
# what was received and twice of what was returned.
GAIN_OF_COPIES = ESTIMATE * ESTIMATE
# Gradients of several uses are added up, and what they are off by is added up with them.
GAIN_OF_SUMS = UNKNOWN_GAIN
# A mean over a whole batch and a mean of means add the same numbers up in another order, layer after layer.
GAIN_OF_OTHER_BATCHES = UNKNOWN_GAIN
# Where no backward record tells what a gradient was when it left, in tolerances of its dtype.
MARGIN_OF_UNSEEN_BACKWARD = 100.0

# --- Copies and numbers ----------------------------------------------------------------------------------------------

# Weights and data are the same numbers, or the same numbers rounded to another dtype, or were computed on another
# device before the recording began: a few units in the last place.
UNITS_OF_COPIES = 4.0
# A view of part of an output may be off where the statistics of the whole show nothing: they are sums in float32,
# 16 units of which are 1e-6.
SMALLEST_SHOWN = 1e-6
# Numbers that a program reads out of a tensor are rounded as the tensor was (1e-5 is float32's tolerance, decision 17),
# and so are the limits of a dtype: the smallest bfloat16 is off by 0.4 % from the smallest float32, below 2^-7.
ROUNDED_NUMBER = 1e-5
ROUNDED_TO_ANOTHER_DTYPE = 2.0**-7
# The largest numbers of dtypes: what a program masks with, in whatever dtype it computes. Of float16, bfloat16,
# float32 and float64.
LARGEST_NUMBERS = (65504.0, 3.3895313892515355e38, 3.4028234663852886e38, 1.7976931348623157e308)

# Digits of a fraction that a person wrote down (1.2e-05); one read out of a float32 has up to 17. A choice.
DIGITS_BY_HAND = 6

# --- Sums that cancel, where nothing but the gradient that came in is known ------------------------------------------

# Terms from which an output is taken for a sum. With fewer, an output of nothing but rounding would need inputs that
# cancel exactly by chance.
FEWEST_TERMS = 4
# Rounding errors of n terms are a random walk of about sqrt(n) units of the largest term. The largest of millions of
# torch's sums in two orders was 6.3 times that; docs/decisions/0017 has the measurement.
MARGIN_OF_CANCELLING = 8.0

# --- Many ranks ------------------------------------------------------------------------------------------------------

# A collective passed a difference on if what arrived is off by no more than what was sent is off by, all ranks
# together. Both are estimated by sketches, and each may be twice too large or too small.
MARGIN_OF_COMMUNICATION = 4.0

# --- How many make a rule --------------------------------------------------------------------------------------------

# So many calls that round gave the same bits from the same inputs: the two runs compute alike, and the first that does
# not is where they part, however little it is off. A choice: one or two equal results may be small or exact by chance.
FEWEST_EQUAL_CALLS = 3
# Records that must show the same two batch sizes.
FEWEST_RECORDS_OF_A_BATCH = 3
# Of another model a few records pair by chance: the first convolution, the loss. Fewer than 20 are too few to tell.
SMALLEST_SHARE_OF_ONE_MODEL = 0.1
FEWEST_RECORDS_OF_A_MODEL = 20

# --- TF32 ------------------------------------------------------------------------------------------------------------

# Rounding both factors to 11 bits makes a product off by about half a unit of its norm, whatever is added up: between
# an eighth of that, for factors that hardly need the bits, and eight times it, after several layers.
SMALLEST_OF_TF32, LARGEST_OF_TF32 = TF32_UNIT / 16.0, TF32_UNIT * 4.0
# Nearly all of at least three products must be off, or one wrong kernel would look like it.
FEWEST_PRODUCTS = 3
SHARE_OF_PRODUCTS = 0.9
