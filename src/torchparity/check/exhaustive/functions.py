"""Unary functions by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchparity.errors import ConfigError, nearest
from torchparity.ops import function_called, is_torch_family

# The ones that models use; any other unary function of torch can be asked for by its name.
_NAMES = """
    abs acos acosh asin asinh atan atanh ceil celu cos cosh deg2rad digamma elu erf erfc erfinv exp exp2 expm1 floor
    frac gelu hardshrink hardsigmoid hardswish hardtanh i0 leaky_relu lgamma log log10 log1p log2 log_sigmoid logit
    mish neg rad2deg reciprocal relu relu6 round rsqrt selu sigmoid sign silu sin sinc sinh softplus softshrink
    softsign special.entr special.erfcx special.i0e special.i1 special.i1e special.log_ndtr special.ndtr
    special.ndtri sqrt square tan tanh tanhshrink trunc
"""
UNARY = tuple(_NAMES.split())
_OTHER_NAMES = {"log_sigmoid": "logsigmoid"}
_FAMILIES = ("Torch", "Functional", "Torch.special", "Tensor")


def function_named(name: str) -> tuple[str, Callable[..., Any]]:
    """Return the API and the function of a name such as `exp`, `torch.exp` or `Functional.gelu`.

    Raise `ConfigError` where torch has none.
    """
    short = name.strip().removeprefix("torch.nn.functional.").removeprefix("torch.")
    short = _OTHER_NAMES.get(short, short)
    candidates = [f"{family}.{short}" for family in _FAMILIES]
    if is_torch_family(short.partition(".")[0]):
        candidates.insert(0, short)
    for api in candidates:
        function = function_called(api)
        if function is not None:
            return api, function
    raise ConfigError(f"torch has no function {name!r}.{nearest(name, UNARY)}")
