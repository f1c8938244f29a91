"""Functions that torch hands to no mode: replaced by ones that pass their calls through the dispatcher."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.overrides import TorchFunctionMode

from torchparity.calls.guard.mode_stack import without
from torchparity.calls.guard.nesting import Nesting


@contextmanager
def inside_function(nesting: Nesting, mode: TorchFunctionMode) -> Iterator[bool]:
    """Let what a wrapped function calls be part of its call; yield whether our mode was on.

    Our mode is off meanwhile, and other wrapped functions are silent.
    """
    with without(mode) as was_on:
        nesting.is_in_function = True
        try:
            yield was_on
        finally:
            nesting.is_in_function = False
