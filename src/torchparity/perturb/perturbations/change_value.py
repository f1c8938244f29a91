"""Exchanges the first and the last element: a sum in which large numbers swallow small ones depends on their order."""

from __future__ import annotations

from typing import Any

import torch

from torchparity.perturb.float_bits import check_has_floats
from torchparity.perturb.memory_layout import copied, shares_elements
from torchparity.perturb.subject import NOTHING_RAISED, CancelledError, Moved, Subject

# Functions of the elements of one tensor in any order, by where their dimensions stand among the arguments.
_REDUCTIONS = {
    **dict.fromkeys(("sum", "nansum", "mean", "nanmean", "prod", "var", "std", "var_mean", "std_mean"), 1),
    **dict.fromkeys(("logsumexp", "amax", "amin", "all", "any", "count_nonzero"), 1),
    **dict.fromkeys(("norm", "vector_norm"), 2),
}
# Functions of the pairs of elements of two tensors in any order.
_PAIRS = frozenset({"dot", "vdot", "dist"})
_LOSSES = frozenset(
    {
        *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "kl_div"),
        *("binary_cross_entropy_with_logits", "poisson_nll_loss", "soft_margin_loss"),
    }
)
_DIMENSIONS = ("dim", "axis")


class ChangeValue:
    """See the contract in `perturbations/__init__.py`."""

    name = "change_value"
    is_differentiable = False
    leaves_autocast = False
    raised = NOTHING_RAISED
    moves_elements = True
    moved: Moved = "none"

    def perturbed(self, subject: Subject) -> list[torch.Tensor]:
        check_has_floats(subject)
        name = subject.api.rpartition(".")[2]
        if name == "norm" and _is_of_a_matrix(subject):
            raise CancelledError("its result depends on the order of the elements")
        if name in _REDUCTIONS:
            return _one_exchanged(subject, _REDUCTIONS[name])
        if name in _PAIRS or (name in _LOSSES and _is_reduced(subject)):
            return _pair_exchanged(subject)
        raise CancelledError("its result depends on the order of the elements")

    def changed(self, value: Any) -> Any:
        return value


def _is_reduced(subject: Subject) -> bool:
    """Tell whether a loss is one number: by its reduction, as a name or a number, or the flags of older programs."""
    given = (*subject.args, *subject.kwargs.values())
    return not any(type(value) in (bool, int, str) and value in (0, "none") for value in given)


def _is_of_a_matrix(subject: Subject) -> bool:
    """Tell whether a norm is one of a matrix, in which elements have places, and not that of all its elements."""
    order = next((subject.kwargs[key] for key in ("p", "ord") if key in subject.kwargs), None)
    if order is None and len(subject.args) > 1:
        order = subject.args[1]
    if order == "nuc":
        return True
    if order in (None, "fro") or ".linalg." not in subject.api:
        return False
    dimensions = subject.kwargs.get("dim", subject.args[2] if len(subject.args) > 2 else None)
    if dimensions is None:
        return subject.tensors[0].dim() == 2
    return not isinstance(dimensions, int) and len(dimensions) == 2


def _one_exchanged(subject: Subject, place: int) -> list[torch.Tensor]:
    if len(subject.tensors) != 1:
        raise CancelledError("its result depends on more than one tensor")
    tensor = subject.tensors[0]
    dimensions = next((subject.kwargs[key] for key in _DIMENSIONS if key in subject.kwargs), None)
    if dimensions is None and len(subject.args) > place:
        dimensions = subject.args[place]
    if dimensions is None or isinstance(dimensions, bool) or dimensions == () or dimensions == []:
        dimensions = range(tensor.dim())
    return [_exchanged(tensor, (dimensions,) if isinstance(dimensions, int) else tuple(dimensions))]


def _pair_exchanged(subject: Subject) -> list[torch.Tensor]:
    shapes = {tensor.shape for tensor in subject.tensors}
    if len(subject.tensors) != 2 or len(shapes) != 1:
        raise CancelledError("its result depends on the order of the elements")
    return [_exchanged(tensor, tuple(range(tensor.dim()))) for tensor in subject.tensors]


def _exchanged(tensor: torch.Tensor, dimensions: tuple[int, ...]) -> torch.Tensor:
    """Return a copy with the first and the last element along some dimensions exchanged."""
    inside = {dimension % tensor.dim() for dimension in dimensions} if tensor.dim() else set()
    if all(tensor.shape[dimension] < 2 for dimension in inside):
        raise CancelledError("it has no two elements to exchange")
    first = tuple(0 if dimension in inside else slice(None) for dimension in range(tensor.dim()))
    last = tuple(-1 if dimension in inside else slice(None) for dimension in range(tensor.dim()))
    if shares_elements(tensor):
        raise CancelledError("elements of its input share memory")
    copy = copied(tensor)
    copy[first], copy[last] = tensor[last], tensor[first]
    return copy


PLUGIN = ChangeValue()
