"""`token_range`: an inference calls its model once for each token, and some of those calls are wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from torchparity.calls import Hook
from torchparity.errors import ConfigError
from torchparity.text import counted


def checked_range(wanted: Any, model: nn.Module | Sequence[nn.Module] | None) -> tuple[int, int]:
    """Return the first and the last token; raise `ConfigError` for anything that is no range of them."""
    is_pair = isinstance(wanted, Sequence) and len(wanted) == 2 and all(type(number) is int for number in wanted)
    if not is_pair or not 0 <= wanted[0] <= wanted[1]:
        raise ConfigError(
            f"token_range is {wanted!r}; it must be [first, last], two whole numbers from 0 on in that order."
        )
    if model is None:
        raise ConfigError("token_range counts the calls of the model, so start() needs it: start(model=...).")
    if isinstance(model if isinstance(model, nn.Module) else model[0], torch.jit.ScriptModule):
        raise ConfigError("token_range cannot count the calls of a scripted model; start and stop around the tokens.")
    return wanted[0], wanted[1]


class TokenCounter:
    """Counts the calls of a model from 0, without those that activation checkpointing repeats.

    `begin` comes before the first that is wanted, `end` before the one after the last, so that
    what is done with a token between two calls belongs to it.
    """

    def __init__(self, wanted: tuple[int, int], *, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._first, self._last = wanted
        self._begin, self._end = begin, end
        self._next = 0
        self._handle: Any = None

    def attach(self, model: nn.Module) -> None:
        """Call it when every other hook is there: this one must come first."""
        self._handle = model.register_forward_pre_hook(Hook(self._called), prepend=True)

    def detach(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    @property
    def has_come(self) -> bool:
        """True where the model was called at all."""
        return self._next > 0

    def sentences(self) -> list[str]:
        """Return what is lacking of the range."""
        if self._next > self._last:
            return []
        return [
            f"token_range [{self._first}, {self._last}] was not reached: {counted(self._next, 'call')} of the model "
            "came (those of a compiled model are not counted)."
        ]

    def _called(self, *_: Any) -> None:
        if torch._C._current_graph_task_id() != -1:
            return
        token, self._next = self._next, self._next + 1
        if token == self._first:
            self._begin()
        elif token == self._last + 1:
            self._end()
