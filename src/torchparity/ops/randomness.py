"""Random functions of torch: those whose operators are tagged as drawing from a generator."""

from __future__ import annotations

from functools import cache

import torch
from torch._ops import OpOverloadPacket

_OF_TORCH = ("Functional.", "Tensor.", "Torch.")


def may_draw(record_name: str) -> bool:
    """Tell whether calls of a name may draw from a generator, by the tags of the operator of that name.

    It is a hint from torch's own table: dropout in evaluation may and does not; a user's operator is not in it.
    """
    operator = _operator_of(record_name)
    return operator is not None and _is_tagged(operator)


@cache
def draws_where_its_tensors_are(record_name: str) -> bool:
    """Tell whether calls of a name that draw at all draw on the device of their tensors.

    Of torch's own functions those do whose operator is not tagged: a tagged one may draw a seed on the host, as
    CUDA's LSTM does. Of functions without an operator of their name, and of those of others, nothing is known.
    """
    operator = _operator_of(record_name)
    return operator is not None and record_name.startswith(_OF_TORCH) and not _is_tagged(operator)


def _operator_of(record_name: str) -> OpOverloadPacket | None:
    operator = getattr(torch.ops.aten, record_name.rpartition(".")[2], None)
    return operator if isinstance(operator, OpOverloadPacket) else None


def _is_tagged(operator: OpOverloadPacket) -> bool:
    overloads = (getattr(operator, name) for name in operator.overloads())  # type: ignore[no-untyped-call]
    return any(torch.Tag.nondeterministic_seeded in overload.tags for overload in overloads)
