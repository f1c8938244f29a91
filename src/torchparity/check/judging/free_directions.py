"""Eigenvectors and singular vectors: their sign or phase is free, and where values coincide so is their direction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torchparity.check.judging.judgement import Judgement, skipped
from torchparity.check.judging.outcome import Outcome, Status
from torchparity.errors import RecordNameError
from torchparity.naming import split_item

_COLUMNS, _ROWS = -2, -1  # the axis along which a vector lies
_VECTORS = {
    "Torch.linalg.eig": {"output.1": _COLUMNS},
    "Torch.linalg.eigh": {"output.1": _COLUMNS},
    "Torch.linalg.svd": {"output.0": _COLUMNS, "output.2": _ROWS},
    "Torch.svd": {"output.0": _COLUMNS, "output.2": _COLUMNS},
    "Tensor.svd": {"output.0": _COLUMNS, "output.2": _COLUMNS},
}
_REASON = "It is not determined: vectors of close or missing values may be any of those that span the same space."


def aligned(outcome: Outcome) -> Outcome:
    """Return the outcome with each vector of a result turned towards the reference's; any other as it is."""
    axis = _axis_of(outcome)
    if axis is None or not hasattr(outcome.device, "conj") or not hasattr(outcome.reference, "conj"):
        return outcome
    emulate = outcome.emulate

    def turned(result: Any) -> Any:
        return None if result is None else _turned(result, outcome.reference, axis)

    return replace(
        outcome,
        device=turned(outcome.device),
        same_dtype=turned(outcome.same_dtype),
        emulate=None if emulate is None else lambda number: turned(emulate(number)),
    )


def unless_free(outcome: Outcome, judgement: Judgement) -> Judgement:
    """Return a skip in place of a failure of what is not determined: vectors, and gradients through them.

    Vectors that do not solve their equation are wrong, whatever is free of them.
    """
    is_free = _axis_of(outcome) is not None or (outcome.api in _VECTORS and _place(outcome)[0] == "backward")
    failed = judgement.status in (Status.ERROR, Status.WARNING)
    if not failed or not is_free or (outcome.solves is not None and not outcome.solves()):
        return judgement
    return skipped(outcome.name, _REASON)


def _axis_of(outcome: Outcome) -> int | None:
    if outcome.api not in _VECTORS:
        return None
    direction, item = _place(outcome)
    return _VECTORS[outcome.api].get(item) if direction == "forward" else None


def _place(outcome: Outcome) -> tuple[str, str]:
    try:
        record, item = split_item(outcome.name)
    except RecordNameError:
        return "", ""
    return record.direction, item


def _turned(result: Any, reference: Any, axis: int) -> Any:
    """Return vectors times the sign, or the phase, that makes their product with the reference's positive."""
    if result.shape != reference.shape or result.dim() < -_COLUMNS:
        return result
    wide = result.to(reference.dtype)
    products = (wide.conj() * reference).sum(axis, keepdim=True)
    sizes = products.abs()
    turns = (products / sizes).where(sizes > 0, sizes.new_ones(()).to(products.dtype))
    return (wide * turns).to(result.dtype)
