"""Records of calls that move tensors between ranks, told by their names."""

from __future__ import annotations

from torchparity.naming import family_of, is_forward_name

_NOT_THE_TRANSFER = frozenset({"wait_tensor", "_wrap_tensor_autograd"})
_FUNCTIONAL_FAMILIES = ("Ops._c10d_functional.", "Ops._c10d_functional_autograd.")


def communicates(record: str) -> bool:
    """Tell whether a record is a call that moves tensors between ranks."""
    if record.startswith("Distributed."):
        return True
    if not record.startswith(_FUNCTIONAL_FAMILIES) or not is_forward_name(record):
        return False
    return family_of(record).rpartition(".")[2] not in _NOT_THE_TRANSFER
