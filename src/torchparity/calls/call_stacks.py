"""Python call stacks of records, each distinct one kept once."""

from __future__ import annotations

import linecache
import os
from types import CodeType, FrameType

import torch

from torchparity.records import StackGroup

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_DEEPEST = 200


class StackBook:
    """Groups records by the stack they were called from, without our frames and, unless `all_frames`, torch's."""

    def __init__(self, *, all_frames: bool = False) -> None:
        self._all = all_frames
        self._groups: dict[tuple[int, ...], list[str]] = {}
        self._wanted_codes: dict[int, bool] = {}
        self._codes: dict[int, CodeType] = {}
        self._frames: dict[tuple[int, int], str] = {}

    def note(self, record: str, frame: FrameType) -> None:
        key = self._stack_key(frame)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = []
        group.append(record)

    def frames_of(self, frame: FrameType) -> tuple[str, ...]:
        """Return the stack of a frame, innermost first."""
        return self._described(self._stack_key(frame))

    def groups(self) -> list[StackGroup]:
        """Return the stacks; those with the same source lines are merged."""
        by_frames: dict[tuple[str, ...], list[str]] = {}
        for places, records in self._groups.items():
            frames = self._described(places)
            by_frames.setdefault(frames, []).extend(records)
        return [StackGroup(records, list(frames)) for frames, records in by_frames.items()]

    def forget(self) -> None:
        self._groups.clear()

    def _stack_key(self, frame: FrameType) -> tuple[int, ...]:
        """Return code ids and instruction offsets in turn: hashing code objects and finding lines is slow."""
        places: list[int] = []
        at: FrameType | None = frame
        wanted = self._wanted_codes
        while at is not None:
            code = at.f_code
            is_wanted = wanted.get(id(code))
            if is_wanted or (is_wanted is None and self._is_wanted(code)):
                places += (id(code), at.f_lasti)
            at = at.f_back
        return tuple(places)

    def _described(self, places: tuple[int, ...]) -> tuple[str, ...]:
        pairs = zip(places[: 2 * _DEEPEST : 2], places[1 : 2 * _DEEPEST : 2], strict=True)
        return tuple(self._frame(code, instruction) for code, instruction in pairs)

    def _frame(self, number: int, instruction: int) -> str:
        described = self._frames.get((number, instruction))
        if described is None:
            code = self._codes[number]
            line = _line(code, instruction)
            source = linecache.getline(code.co_filename, line).strip()
            described = f"File {code.co_filename}, line {line}, in {code.co_name}, \n {source}"
            self._frames[number, instruction] = described
        return described

    def _is_wanted(self, code: CodeType) -> bool:
        name = code.co_filename
        wanted = not name.startswith((_OURS, "<frozen")) and (self._all or not name.startswith(_TORCH))
        self._wanted_codes[id(code)] = wanted
        self._codes[id(code)] = code  # held, so that its number is nobody else's
        return wanted


def _line(code: CodeType, instruction: int) -> int:
    """Return the line of an instruction."""
    for first, last, line in code.co_lines():
        if first <= instruction < last and line is not None:
            return line
    return code.co_firstlineno
