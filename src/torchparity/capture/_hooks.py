"""Hooks on the user's modules and parameters that leave no trace in copies of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Hook:
    """A hook of which a copy or a pickle of the model has an idle one.

    Nor does it do anything while a compiler or tracer looks at the model, which would put
    our work into the user's graph.
    """

    def __init__(self, work: Callable[..., None]) -> None:
        self._work = work

    def __call__(self, *arguments: Any) -> None:
        if not torch.compiler.is_compiling() and torch._C._get_tracing_state() is None:
            self._work(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return Hook, (_do_nothing,)


def _do_nothing(*_: Any) -> None:
    pass
