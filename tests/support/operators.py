"""Operators of a user's own, registered with torch for as long as they are needed."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def registered_operators() -> Iterator[Any]:
    """Register `scribble`, which does not bump Tensor._version when it writes, and `dim`, named like a question."""
    library = torch.library.Library("torchparity_tests", "DEF")

    def scribble(tensor: torch.Tensor) -> None:
        (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())[:] = [9.0] * tensor.numel()

    library.define("scribble(Tensor(a!) x) -> ()")
    library.impl("scribble", scribble, "CPU")
    library.define("dim(Tensor x) -> Tensor")
    library.impl("dim", lambda tensor: tensor * 2, "CPU")
    try:
        yield torch.ops.torchparity_tests
    finally:
        library._destroy()
