"""Inputs that cannot be drawn element by element: positive definite matrices, offsets, distinct indices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from torchparity.check.cases.drawing import Draws, drawn, torch_dtype
from torchparity.check.cases.refusal import CannotRun
from torchparity.records import Record, TensorLeaf

Generator = Callable[[Record, TensorLeaf, Draws], torch.Tensor]


def generator_for(operator: str, path: str) -> Generator | None:
    """Return how an argument of an operator is made; None where drawing its elements is right."""
    return _GENERATORS.get((operator.rpartition(".")[2].rstrip("_"), path))


def _positive_definite(_: Record, leaf: TensorLeaf, draws: Draws) -> torch.Tensor:
    """Return matrices A·Aᵀ/n + 1, whose eigenvalues are at least 1 in any dtype."""
    made = drawn(leaf, draws).to(torch.complex128 if "complex" in leaf.dtype else torch.float64)
    if made.dim() < 2 or made.shape[-1] != made.shape[-2] or not made.numel():
        return made.to(torch_dtype(leaf.dtype))
    largest = made.abs().max().clamp(min=1e-30)
    size = made.shape[-1]
    product = (made / largest) @ (made / largest).mH / size + torch.eye(size, dtype=made.dtype)
    return product.to(torch_dtype(leaf.dtype))


def _offsets(_: Record, leaf: TensorLeaf, draws: Draws) -> torch.Tensor:
    """Return growing offsets, the first of them 0."""
    offsets = drawn(leaf, draws).sort().values
    if offsets.numel():
        offsets[0] = 0
    return offsets


def _sorted(_: Record, leaf: TensorLeaf, draws: Draws) -> torch.Tensor:
    return drawn(leaf, draws).sort(-1).values


def _of_a_forward_pass(_: Record, leaf: TensorLeaf, draws: Draws) -> torch.Tensor:
    raise CannotRun("needs real data: its indices must be those of the forward pass")


def _distinct(forward: Record, leaf: TensorLeaf, draws: Draws) -> torch.Tensor:
    """Return indices that are distinct along the dimension of the call: which of two equal ones wins is open."""
    made = drawn(leaf, draws)
    if leaf.statistics is None or not made.numel() or not made.dim() or made.dtype == torch.bool:
        return made
    low, high = int(made.min()), int(made.max())
    dim = _dimension(forward, made.dim())
    length = made.shape[dim]
    if high - low + 1 < length:
        return made
    moved = made.movedim(dim, -1)
    rows = moved.numel() // length
    keys = draws.raw(rows * (high - low + 1), "distinct").reshape(rows, -1)
    order = np.argsort(keys, axis=-1, kind="stable")[:, :length]
    return torch.from_numpy(order + low).reshape(moved.shape).movedim(-1, dim).contiguous().to(made.dtype)


def _dimension(forward: Record, dims: int) -> int:
    given = forward.input_kwargs.get("dim", forward.input_args[1] if len(forward.input_args) > 1 else None)
    value = getattr(given, "value", None)
    return value % dims if isinstance(value, int) and dims > 1 else 0


_GRADIENTS_OF_POOLS = (
    *("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"),
    *("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward"),
    *("fractional_max_pool2d_backward", "fractional_max_pool3d_backward"),
)
_GENERATORS: dict[tuple[str, str], Generator] = {
    ("cholesky", "0"): _positive_definite,
    ("cholesky_ex", "0"): _positive_definite,
    ("embedding_bag", "2"): _offsets,
    ("embedding_bag", "offsets"): _offsets,
    ("searchsorted", "0"): _sorted,
    ("bucketize", "1"): _sorted,
    **{(name, path): _distinct for name in ("scatter", "index_copy") for path in ("2", "index")},
    **{(name, path): _distinct for name in ("put", "index_put") for path in ("1", "1.0", "index")},
    ("__setitem__", "1"): _distinct,
    **{
        (name, path): _of_a_forward_pass
        for name, place in zip(_GRADIENTS_OF_POOLS, "772244", strict=True)
        for path in (place, "indices")
    },
}
