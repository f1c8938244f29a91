"""Calls that make no new numbers: they move, select, compare or convert those that they are given."""

from __future__ import annotations

import torch

from torchparity.check.cases import Arguments, Case
from torchparity.check.judging.standards import Standard, operator_of, standard_of

_CONVERSIONS = frozenset(
    {"to", "type", "type_as", "half", "float", "bfloat16", "double", "byte", "char", "short", "_to_copy"}
)
_ALSO_EXACT = _CONVERSIONS | {"searchsorted", "bucketize", "isin", "unique", "unique_consecutive", "equal"}
# Arguments with which an exact operator computes all the same, by place and by name.
_COMPUTING = {
    "round": (1, "decimals"),
    "scatter": (4, "reduce"),
    "embedding": (3, "max_norm"),
}
_OF_COMPLEX = frozenset({"abs", "absolute", "sign", "sgn"})


def has_exact_inputs(case: Case, arguments: Arguments) -> bool:
    """Tell whether an answer hangs on every bit of the inputs: floor(3) is 3, and 2 for the number below."""
    operator = operator_of(case.api)
    if standard_of(case.api) is not Standard.BINARY and operator not in _ALSO_EXACT:
        return False
    place, name = _COMPUTING.get(operator, (len(arguments.args), ""))
    if arguments.kwargs.get(name) is not None or any(given is not None for given in arguments.args[place:]):
        return False
    return operator not in _OF_COMPLEX or not any(given.tensor.is_complex() for given in arguments.inputs())


def is_exact(case: Case, arguments: Arguments) -> bool:
    """Tell whether outputs must be the reference's to the last bit; a conversion may round twice on its way."""
    dtypes = {given.tensor.dtype for given in arguments.inputs() if _is_float(given.tensor)}
    is_moving = standard_of(case.api) is Standard.BINARY and len(dtypes) <= 1
    return is_moving and has_exact_inputs(case, arguments)


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
