"""Whether a call that was seen to begin still runs: torch tells no one when it ends by an interrupt."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import NamedTuple


class Place(NamedTuple):
    """Where on the stack a call runs: how many frames are below it, and which code it runs."""

    depth: int
    code: CodeType

    @classmethod
    def of(cls, frame: FrameType) -> Place:
        return cls(len(_frames(frame)) - 1, frame.f_code)

    def is_below(self, frame: FrameType) -> bool:
        """Tell whether the call still runs, and what runs in `frame` was called by it."""
        frames = _frames(frame)
        return self.depth < len(frames) - 1 and frames[self.depth].f_code is self.code


def runs_code_of(file: str) -> bool:
    """Tell whether a function of a file is under way in this thread."""
    return any(frame.f_code.co_filename == file for frame in _frames(sys._getframe(1)))


def _frames(frame: FrameType) -> list[FrameType]:
    """Return the frames of a stack, the outermost first."""
    found = [frame]
    while (outer := found[-1].f_back) is not None:
        found.append(outer)
    return found[::-1]
