"""A hint at `cast_inputs`, where a model fails on inputs of another dtype than its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from torchparity.errors import ConfigError
from torchparity.in_lockstep.gradient_seeds import tensors_in
from torchparity.in_lockstep.inputs import dtype_of


@contextmanager
def dtypes_explained(model: nn.Module, name: str, given: object) -> Iterator[None]:
    """Say which option helps where the model's call fails for the dtype of its inputs; other failures pass through."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError) as error:
        other = _foreign_dtype(model, given)
        if other is None or "type" not in str(error):
            raise
        raise ConfigError(
            f"lockstep gave {name}, which computes in {_name(dtype_of(model))}, inputs of {_name(other)}, and it "
            f"failed ({_first_line(error)}); cast_inputs=True casts them for each model."
        ) from error


def _foreign_dtype(model: nn.Module, given: object) -> torch.dtype | None:
    own = dtype_of(model)
    floating = [tensor.dtype for tensor in tensors_in(given) if tensor.is_floating_point()]
    return next((dtype for dtype in floating if own is not None and dtype != own), None)


def _name(dtype: torch.dtype | None) -> str:
    return str(dtype).removeprefix("torch.")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")
