"""Python call stacks of records, each distinct one kept once."""

from __future__ import annotations

import linecache
import os
from types import CodeType, FrameType

import torch

from torchparity.records import StackGroup

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_DEEPEST = 100
Place = tuple[CodeType, int]


class StackBook:
    """Groups records by the stack they were called from; frames of torch and of ours are left out."""

    def __init__(self, *, all_frames: bool = False) -> None:
        self._all = all_frames
        self._groups: dict[tuple[Place, ...], list[str]] = {}
        self._is_foreign: dict[CodeType, bool] = {}

    def note(self, record: str, frame: FrameType) -> None:
        places: list[Place] = []
        at: FrameType | None = frame
        while at is not None and len(places) < _DEEPEST:
            if self._is_wanted(at.f_code):
                places.append((at.f_code, at.f_lineno))
            at = at.f_back
        self._groups.setdefault(tuple(places), []).append(record)

    def groups(self) -> list[StackGroup]:
        return [StackGroup(records, [_frame(*place) for place in places]) for places, records in self._groups.items()]

    def forget(self) -> None:
        self._groups.clear()

    def _is_wanted(self, code: CodeType) -> bool:
        known = self._is_foreign.get(code)
        if known is None:
            name = code.co_filename
            known = not name.startswith((_OURS, "<frozen")) and (self._all or not name.startswith(_TORCH))
            self._is_foreign[code] = known
        return known


def _frame(code: CodeType, line: int) -> str:
    source = linecache.getline(code.co_filename, line).strip()
    return f"File {code.co_filename}, line {line}, in {code.co_name}, \n {source}"
