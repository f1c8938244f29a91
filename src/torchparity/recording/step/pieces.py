"""Pieces of text by number, in one buffer that compiled code reads."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from torchparity.kernels.texts import Text

_MANY = 8 << 20  # bytes, which are copied for each step; after so many a recording starts over


class Pieces:
    """Pieces of text that a recording adds to from step to step."""

    def __init__(self) -> None:
        self._text, self._starts = bytearray(), array("q", [0])

    def add(self, piece: bytes) -> int:
        """Return the number of a new piece."""
        self._text += piece
        self._starts.append(len(self._text))
        return len(self._starts) - 2

    def are_many(self) -> bool:
        """Tell whether there are so many that it is better to start over."""
        return len(self._text) > _MANY

    def clear(self) -> None:
        self._text, self._starts = bytearray(), array("q", [0])

    @contextmanager
    def for_a_while(self) -> Iterator[None]:
        """Forget the pieces added inside at the end."""
        pieces = len(self._starts)
        try:
            yield
        finally:
            del self._text[self._starts[pieces - 1] :], self._starts[pieces:]

    def arrays(self) -> Text:
        """Return them as compiled code reads them."""
        return np.frombuffer(bytes(self._text), np.uint8), np.array(self._starts, np.int64)
