"""APIs that cannot be perturbed, and why: what they compute depends on more than the values of their inputs."""

from __future__ import annotations

from torchparity.perturb.apis import function_of

UNWRITTEN = "it returns memory that nobody has written"
_REASONS = {
    **dict.fromkeys(("resize", "resize_", "resize_as", "resize_as_"), UNWRITTEN),
    **dict.fromkeys(("apply_", "map_", "map2_"), "it calls a function of yours for each element"),
    **dict.fromkeys(("as_strided_copy", "as_strided_scatter"), "it reads memory by strides, which a copy may not have"),
    **dict.fromkeys(("eig", "eigvals"), "its results come in no defined order"),
}
# By the largest number or the bits that it has: in another dtype they compute something else.
_BY_DTYPE = frozenset({"nan_to_num", "nan_to_num_", "nextafter", "nextafter_", "view_copy"})
_COMPUTING_NOTHING = frozenset({"_set_grad_enabled", "set_grad_enabled", "device", "dtype", "is_grad_enabled"})
_FAMILIES_OF_TORCH = frozenset({"Torch", "Tensor", "Functional", "Aten", "VF"})
NEEDS_DTYPE = "its result depends on the dtype of its input"


def reason_against_api(api: str) -> str | None:
    """Return why no call of an API can be perturbed; None where it can."""
    return _REASONS.get(function_of(api)) if _is_of_torch(api) else None


def computes_nothing(api: str) -> bool:
    """Tell whether calls of a function compute nothing: they are no calls that could be left out."""
    return function_of(api) in _COMPUTING_NOTHING and _is_of_torch(api)


def needs_dtype(api: str) -> bool:
    """Tell whether an API computes something else in another dtype, so that it cannot be raised."""
    return function_of(api) in _BY_DTYPE and _is_of_torch(api)


def _is_of_torch(api: str) -> bool:
    """Tell whether an API is one of torch's own, and not a user's of the same name."""
    return api.partition(".")[0] in _FAMILIES_OF_TORCH
