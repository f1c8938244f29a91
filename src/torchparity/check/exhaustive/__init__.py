"""Exhaustive checks: all 65,536 inputs that float16 or bfloat16 has, through unary functions on a device.

for found in check_exhaustively(["exp", "gelu"], ["bfloat16"], "cuda"):
    print(found.max_ulp, "at", found.worst_input)
"""

from torchparity.check.exhaustive.functions import UNARY, function_named
from torchparity.check.exhaustive.results import COLUMNS, ExhaustiveResult
from torchparity.check.exhaustive.running import DTYPES, check_exhaustively
from torchparity.check.exhaustive.tables import write_exhaustive

__all__ = [
    "COLUMNS",
    "DTYPES",
    "UNARY",
    "ExhaustiveResult",
    "check_exhaustively",
    "function_named",
    "write_exhaustive",
]
