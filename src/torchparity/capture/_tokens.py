"""`token_range`: an inference calls its model once for each token, and some of those calls are wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from torchparity.capture._hooks import Hook
from torchparity.errors import ConfigError


def checked_range(wanted: Any, *, has_model: bool) -> tuple[int, int]:
    """Return the first and the last token; raise `ConfigError` for anything that is no range of them."""
    is_pair = isinstance(wanted, Sequence) and len(wanted) == 2 and all(type(number) is int for number in wanted)
    if not is_pair or not 0 <= wanted[0] <= wanted[1]:
        raise ConfigError(
            f"token_range is {wanted!r}; it must be [first, last], two whole numbers from 0 on in that order."
        )
    if not has_model:
        raise ConfigError("token_range counts the calls of the model, so start() needs it: start(model=...).")
    return wanted[0], wanted[1]


class TokenCounter:
    """Counts the calls of a model from 0: `begin` comes before the first that is wanted, `end` before the one after
    the last, so that what is done with a token between two calls belongs to it."""

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

    def _called(self, *_: Any) -> None:
        token, self._next = self._next, self._next + 1
        if token == self._first:
            self._begin()
        elif token == self._last + 1:
            self._end()
