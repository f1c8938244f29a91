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
    """Groups records by the stack they were called from; frames of torch and of ours are left out."""

    def __init__(self, *, all_frames: bool = False) -> None:
        self._all = all_frames
        self._groups: dict[tuple[int, ...], list[str]] = {}
        self._is_known: dict[int, bool] = {}
        self._codes: dict[int, CodeType] = {}

    def note(self, record: str, frame: FrameType) -> None:
        places: list[int] = []  # number of the code and line in turn; codes themselves take long to hash
        at: FrameType | None = frame
        wanted = self._is_known
        while at is not None and len(places) < _DEEPEST:
            number = id(at.f_code)
            known = wanted.get(number)
            if known or (known is None and self._is_wanted(at.f_code)):
                places += (number, at.f_lineno)
            at = at.f_back
        key = tuple(places)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = []
        group.append(record)

    def groups(self) -> list[StackGroup]:
        return [
            StackGroup(
                records, [_frame(self._codes[code], line) for code, line in zip(places[::2], places[1::2], strict=True)]
            )
            for places, records in self._groups.items()
        ]

    def forget(self) -> None:
        self._groups.clear()

    def _is_wanted(self, code: CodeType) -> bool:
        name = code.co_filename
        wanted = not name.startswith((_OURS, "<frozen")) and (self._all or not name.startswith(_TORCH))
        self._is_known[id(code)] = wanted
        self._codes[id(code)] = code  # held, so that its number is nobody else's
        return wanted


def _frame(code: CodeType, line: int) -> str:
    source = linecache.getline(code.co_filename, line).strip()
    return f"File {code.co_filename}, line {line}, in {code.co_name}, \n {source}"
