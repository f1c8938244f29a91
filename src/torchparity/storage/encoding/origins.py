"""The list "origins" of a dump.json: what stands behind the numbers below zero in its leaves' "from".

"from": 12      made by record number 12 of the file
"from": -1      the first entry of "origins": a text, or a list of texts where there are several producers
"""

from __future__ import annotations

import msgspec


class OriginTable(msgspec.Struct, eq=False, gc=False):
    """The origins of one step that are no record of it, or several; numbers are valid for so many `records`."""

    entries: list[str | tuple[str, ...]] = []
    records: int = 0
    _numbers: dict[tuple[str, ...], int] = {}

    def number(self, texts: tuple[str, ...]) -> int:
        """Return the number that stands for these producers."""
        number = self._numbers.get(texts)
        if number is None:
            self.entries.append(texts[0] if len(texts) == 1 else texts)
            number = self._numbers[texts] = -len(self.entries)
        return number
