"""Emulation of a dtype's rounding inside a reference of higher precision.

    inputs = [moved(tensor, torch.bfloat16, number, "Functional.linear") for tensor in tensors]
    with RoundedResults(torch.bfloat16, number):
        result = function(*inputs)

Every operator's result is rounded to the tested dtype, in backward too, and the inputs are moved by what
the dtype's arithmetic cannot tell apart. How far the result goes from the reference is the error that this
dtype makes of this API at these inputs, whichever kernel computes it: the emulation uses the reference's.
`number` counts independent samples.

`Tf32Products(variant)` gives the products of a reference the factors that TF32 has, and nothing else.
"""

from torchparity.check.emulation.moved_inputs import moved
from torchparity.check.emulation.rounded_results import RoundedResults
from torchparity.check.emulation.tf32_products import VARIANTS, Tf32Products

__all__ = ["VARIANTS", "RoundedResults", "Tf32Products", "moved"]
