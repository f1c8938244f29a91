"""The deviation that rounding may explain, by dtype.

Rows agree when they are as close as rounding lets them be: tolerances that are finer than msprobe's verdicts, which
say whether a result may still be used. docs/decisions/0017 derives the numbers.
"""

from __future__ import annotations

from functools import lru_cache

from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.pairing.items import ItemPair
from torchparity.records import TensorLeaf, ValueLeaf

# The inputs already differ by rounding, so errors accumulate: about 10 u for 16-bit dtypes.
_OF_ROUNDED_INPUTS = {"torch.float64": 1e-10, "torch.float32": 1e-5, "torch.float16": 5e-3, "torch.bfloat16": 4e-2}
# Equal inputs: each run rounds its result once, which explains 2 u; the table is rounded up (decision 17).
_OF_EQUAL_INPUTS = {"torch.float16": 2e-3, "torch.bfloat16": 1e-2}
_FLOAT8_TOLERANCE = 0.5
_UNIT = {"torch.float64": 2.0**-53, "torch.float32": 2.0**-24, "torch.float16": 2.0**-11, "torch.bfloat16": 2.0**-8}
_ARGUMENT_TOLERANCE = 1e-5  # a number may have been read out of a tensor of float32


def tolerance(pair: ItemPair, *, has_equal_inputs: bool = False) -> float:
    """Return the deviation that rounding explains: the coarser of the two dtypes decides.

    `has_equal_inputs`: the pair was computed from equal inputs, so that one operator's rounding is all there is.
    """
    leaves = [side.leaf for side in (pair.candidate, pair.baseline) if side is not None]
    if leaves[0].__class__ is leaves[-1].__class__ is TensorLeaf:  # nearly every pair
        return max(
            _tolerance_of_dtype(leaves[0].dtype, has_equal_inputs),
            _tolerance_of_dtype(leaves[-1].dtype, has_equal_inputs),
        )
    if pair.is_argument:
        return (
            _ARGUMENT_TOLERANCE if any(isinstance(leaf, ValueLeaf) and leaf.type == "float" for leaf in leaves) else 0.0
        )
    return max(_tolerance_of_dtype(leaf.dtype, has_equal_inputs) for leaf in leaves if isinstance(leaf, TensorLeaf))


def is_apart(comparison: ItemComparison) -> bool:
    """Tell whether the two sides differ by more than the rounding of their dtypes."""
    deviation = comparison.deviation
    return deviation is not None and deviation > 0 and deviation > tolerance(comparison.pair)


def unit_of(dtype: str) -> float:
    """Return the largest relative error of rounding once to a dtype; 0 for dtypes without an entry."""
    return _UNIT.get(dtype, 0.0)


@lru_cache(maxsize=64)
def _tolerance_of_dtype(dtype: str, has_equal_inputs: bool) -> float:
    if dtype.startswith("torch.float8"):
        return _FLOAT8_TOLERANCE
    usual = _OF_ROUNDED_INPUTS.get(dtype, 0.0)
    return _OF_EQUAL_INPUTS.get(dtype, usual) if has_equal_inputs else usual
