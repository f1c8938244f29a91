"""Random functions of torch: those whose operators are tagged as drawing from a generator."""

from __future__ import annotations

import torch


def may_draw(record_name: str) -> bool:
    """Tell whether calls of a name may draw from a generator, by the tags of the operator of that name.

    It is a hint from torch's own table: dropout in evaluation may and does not; a user's operator is not in it.
    """
    operator = record_name.rpartition(".")[2]
    packet = getattr(torch.ops.aten, operator, None)
    if packet is None:
        return False
    return any(torch.Tag.nondeterministic_seeded in getattr(packet, name).tags for name in packet.overloads())
