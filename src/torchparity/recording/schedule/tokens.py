"""`token_range`: an inference calls its model once for each token, and some of those calls are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from torchparity.calls import Attention, Dispatcher, Hook
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


class TokenRange:
    """Has calls listened to while a model computes the tokens that are wanted.

    The model's calls are counted from 0, without those that activation checkpointing repeats. Listening begins
    before the first that is wanted and ends before the one after the last, so that what is done with a token
    between two calls belongs to it.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._first = self._last = self._next = 0
        self._handle: Any = None
        self._has_ever_begun = False

    def open(self, model: nn.Module, wanted: tuple[int, int]) -> None:
        """Wait for the tokens; call it when every other hook is on the model: this one must come first."""
        self._first, self._last = wanted
        self._next = 0
        self._dispatcher.attention = Attention.COUNTING
        self._handle = model.register_forward_pre_hook(Hook(self._called), prepend=True)

    def close(self) -> list[str]:
        """Wait no longer; return what is lacking of the range, and nothing where it is not open."""
        if self._handle is None:
            return []
        self._handle.remove()
        self._handle = None
        is_lacking = self._next <= self._last and (self._next > 0 or not self._has_ever_begun)
        sentence = (
            f"token_range [{self._first}, {self._last}] was not reached: {counted(self._next, 'call')} of the model "
            "came (those of a compiled model are not counted)."
        )
        return [sentence] if is_lacking else []

    @property
    def has_begun(self) -> bool:
        """True where it is open and its first token has come."""
        return self._handle is not None and self._next > self._first

    def _called(self, *_: Any) -> None:
        if torch._C._current_graph_task_id() != -1:
            return
        token, self._next = self._next, self._next + 1
        if token == self._first:
            self._begin()
        elif token == self._last + 1:
            self._dispatcher.attention = Attention.COUNTING  # watching ends where it began, in `stop` or `step`

    def _begin(self) -> None:
        # Nobody saw what was done since start.
        self._dispatcher.boundary.run("token_range", self._dispatcher.memory.wrote_unseen, "token_range")
        self._dispatcher.attention = Attention.LISTENING
        self._has_ever_begun = True
