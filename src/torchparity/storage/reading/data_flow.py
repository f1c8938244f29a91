"""Data flow of a part: the producers that the numbers in its leaves stand for. A file may say anything."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from torchparity.records import Origin
from torchparity.storage.encoding.origins import OriginTable

_EARLIER = r"(?as)step(\d{1,9}) (.+)"
_NAMELESS = {"outside": Origin("outside"), "uninitialised": Origin("uninitialised"), "unknown": Origin("unknown")}
_MOST = 64  # producers of one tensor


class DataFlow:
    """Origins by number; a number or an entry that makes no sense reads as not told."""

    def __init__(self, names: Iterable[str] = (), entries: Any = None) -> None:
        self.is_told = isinstance(entries, list)
        self._names = list(names) if self.is_told else []
        self._known = frozenset(self._names)
        self._entries: list[Any] = entries if isinstance(entries, list) else []
        self._parsed: dict[int, tuple[Origin, ...]] = {}

    def origins(self, number: int | None) -> tuple[Origin, ...]:
        if number is None or not self.is_told:
            return ()
        parsed = self._parsed.get(number)
        if parsed is None:
            parsed = self._parsed[number] = self._parse(number)
        return parsed

    def table(self) -> OriginTable | None:
        """Return the origins for a copy of the part, None where there are none, or where they make no sense."""
        are_whole = all(self.origins(-1 - index) for index in range(len(self._entries)))
        return OriginTable(list(self._entries), len(self._names)) if self.is_told and are_whole else None

    def _parse(self, number: int) -> tuple[Origin, ...]:
        if number >= 0:
            return (Origin("record", self._names[number]),) if number < len(self._names) else ()
        if -1 - number >= len(self._entries):
            return ()
        entry = self._entries[-1 - number]
        texts = entry if isinstance(entry, (list, tuple)) else [entry]
        if len(texts) > _MOST or not all(isinstance(text, str) for text in texts):
            return ()
        origins = [self._origin(text) for text in texts]
        return tuple(origin for origin in origins if origin is not None) if None not in origins else ()

    def _origin(self, text: str) -> Origin | None:
        if text in self._known:
            return Origin("record", text)
        if text in _NAMELESS:
            return _NAMELESS[text]
        kind, _, name = text.partition(" ")
        if kind == "parameter":
            return Origin("parameter", name)
        if kind == "buffer":
            return Origin("buffer", name)
        earlier = re.fullmatch(_EARLIER, text)
        return Origin("earlier", earlier[2], int(earlier[1])) if earlier else None
