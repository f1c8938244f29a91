"""Engines, one file each: `x.py` is the engine `x`; it measures the pairs of stored tensors of many parts.

A part is begun when its records are paired and finished when its results are needed; parts that are begun may be
measured in any order and anywhere. Results are kept by the pair that they belong to, so they do not depend on who
measured what, or when. What an engine cannot read the part reads itself, and says what is wrong. `PLUGIN` in each file
opens the engine at an address; nothing loads before it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from torchparity import plugins
from torchparity.comparing.measuring.pair_reader import PairReader, Progress


class Engine(Protocol):
    """Measures pairs of tensors."""

    where: str  # the place of the work, for a sentence about the progress; "" for this process

    def begin(self, reader: PairReader) -> None:
        """Take the pairs that `reader` wants; measuring them may begin."""

    def finish(self, reader: PairReader, progress: Progress, meanwhile: Callable[[], None]) -> None:
        """Return when all that can be measured of a reader that was begun is put there.

        `meanwhile` is called while others measure and this thread would wait.
        """


class Opener(Protocol):
    """The contract of `PLUGIN` in each file of this folder."""

    def __call__(self, address: str | None) -> AbstractContextManager[Engine]: ...


def open_engine(name: str, address: str | None) -> AbstractContextManager[Engine]:
    """Open an engine by its name; raise `UnknownPluginError` where there is none."""
    opener: Opener = plugins.load("comparing.engines", name)
    return opener(address)
