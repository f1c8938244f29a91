"""Python frames: detects calls abandoned by an exception or Ctrl-C, for which torch runs no hook."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import NamedTuple


class Place(NamedTuple):
    """The place of a call on the stack: how many frames are below it, and which code it runs."""

    depth: int
    code: CodeType


class Stack:
    """The frames of a thread, the outermost first; walked once, and asked about several calls."""

    __slots__ = ("_frames",)

    def __init__(self, frame: FrameType) -> None:
        frames = [frame]
        while (outer := frames[-1].f_back) is not None:
            frames.append(outer)
        self._frames = frames[::-1]

    def innermost(self) -> Place:
        return Place(len(self._frames) - 1, self._frames[-1].f_code)

    def is_inside(self, place: Place) -> bool:
        """Tell whether a call still runs, and the innermost frame was called by it."""
        return place.depth < len(self._frames) - 1 and self._frames[place.depth].f_code is place.code

    def runs_code_of(self, file: str) -> bool:
        """Tell whether a function of a file is under way."""
        return any(frame.f_code.co_filename == file for frame in self._frames)


def has_caller(frame: FrameType, code: CodeType) -> bool:
    """Tell whether some code is under way; looks from the inside, where it mostly is near."""
    at: FrameType | None = frame
    while at is not None and at.f_code is not code:
        at = at.f_back
    return at is not None


def who_calls() -> FrameType:
    """Return who called the function that asks; of several recordings each has its wrapper, which is passed over."""
    frame, code = sys._getframe(2), sys._getframe(1).f_code
    while frame.f_code is code and frame.f_back is not None:
        frame = frame.f_back
    return frame
