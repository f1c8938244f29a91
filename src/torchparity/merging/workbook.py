"""Reads the sheets of an xlsx file row by row, with the standard library alone: docs/decisions/0037 says why."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TypeVar
from xml.etree import ElementTree

from torchparity.errors import DamagedFileError, UnsafeFileError

_SHEET = re.compile(r"xl/worksheets/sheet(\d{1,9})\.xml", re.ASCII)
_SHARED = "xl/sharedStrings.xml"
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_FIRST_ROW = re.compile(rb"<((?:\w+:)?)row[\s/>]", re.ASCII)
_BYTES_AT_ONCE = 1 << 18
_MOST_BYTES = 8 << 30  # of a workbook when unpacked: a million rows have about one
_MOST_SHARED = 1 << 29  # of the texts that cells refer to
_MOST_OF_A_ROW = 1 << 26
_MOST_COLUMNS = 16_384
_DOCTYPE = b"<!DOCTYPE"
_DIGITS = "0123456789"
_Taken = TypeVar("_Taken")
Cells = dict[int, str]  # of a row, by the place of the column; blank ones are left out


class SheetRows(Iterator[Cells]):
    """The rows of a sheet; `keep` leaves out the columns that nobody needs."""

    def __init__(self, path: Path, file: IO[bytes], shared: Sequence[str]) -> None:
        self._path, self._shared = path, shared
        self._rows = _rows(path, file)
        self._places: dict[str, int] = {}  # of columns by their letters
        self._wanted: frozenset[int] | None = None

    def keep(self, places: Iterable[int]) -> None:
        """Read these columns alone from here on."""
        self._wanted = frozenset(places)

    def __next__(self) -> Cells:
        return dict(self._cells(next(self._rows)))

    def _cells(self, row: ElementTree.Element) -> Iterator[tuple[int, str]]:
        place = -1
        for cell in row:
            where = cell.get("r")
            place = place + 1 if where is None else self._place(where.rstrip(_DIGITS))
            if (self._wanted is None or place in self._wanted) and (text := self._content(cell)):
                yield place, text

    def _place(self, letters: str) -> int:
        """Return the place of a column: 0 for A, 26 for AA."""
        if letters not in self._places:
            place = 0
            for letter in letters[:4]:
                place = place * 26 + ord(letter) - 64
            if not 0 < place <= _MOST_COLUMNS:
                raise DamagedFileError(self._path, f"it has a cell in the column {letters[:20]!r}, which no sheet has")
            self._places[letters] = place - 1
        return self._places[letters]

    def _content(self, cell: ElementTree.Element) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return "".join(_text_of(child) for child in cell if _name(child) == "is")
        value = next((child.text or "" for child in cell if _name(child) == "v"), "")
        if kind == "s":
            if not value.isdecimal() or int(value) >= len(self._shared):
                raise DamagedFileError(self._path, f"a cell refers to the text {value[:20]!r}, which is not there")
            return self._shared[int(value)]
        if kind == "b":
            return "True" if value == "1" else "False"
        return _unescaped(value)


def read_sheets(path: Path, take: Callable[[SheetRows], _Taken]) -> list[_Taken]:
    """Return what `take` makes of the rows of each sheet; raise `DamagedFileError` for no workbook, or half of one."""
    try:
        with zipfile.ZipFile(path) as book:
            _refuse_bombs(path, book)
            names = [name for name in book.namelist() if _SHEET.fullmatch(name)]
            if not names:
                raise DamagedFileError(path, "it has no sheet")
            shared = _shared_texts(path, book)
            taken = []
            for name in sorted(names, key=lambda name: int(_SHEET.sub(r"\1", name))):
                with book.open(name) as file:
                    taken.append(take(SheetRows(path, file, shared)))
            return taken
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DamagedFileError(path, f"it is no workbook, or cut short ({error})") from None
    except (ElementTree.ParseError, UnicodeDecodeError, LookupError) as error:
        raise DamagedFileError(path, f"its sheets are no XML ({error})") from None


def _refuse_bombs(path: Path, book: zipfile.ZipFile) -> None:
    sizes = {entry.filename: entry.file_size for entry in book.infolist()}
    if sum(sizes.values()) > _MOST_BYTES or sizes.get(_SHARED, 0) > _MOST_SHARED:
        raise DamagedFileError(path, f"it unpacks to {sum(sizes.values()):,} bytes, more than any table has")


def _rows(path: Path, file: IO[bytes]) -> Iterator[ElementTree.Element]:
    for document in _documents(path, file):
        for part in ElementTree.fromstring(document):
            if _name(part) == "sheetData":
                yield from part


def _documents(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """Yield the XML of a sheet in pieces of some rows, each a whole document: events for each element are slow."""
    head, row_end, tail, text = b"", b"", b"", b""
    while part := file.read(_BYTES_AT_ONCE):
        if _DOCTYPE in text[-len(_DOCTYPE) :] + part:
            raise UnsafeFileError(path, "it declares a document type, which no workbook has")
        text += part
        if not head and (first := _FIRST_ROW.search(text)):
            head, text = text[: first.start()], text[first.start() :]
            row_end, tail = b"</%brow>" % first[1], b"</%bsheetData></%bworksheet>" % (first[1], first[1])
        end = text.rfind(row_end) + len(row_end) if head else 0
        if end > len(row_end):
            yield head + text[:end] + tail
            text = text[end:]
        elif len(text) > _MOST_OF_A_ROW:
            raise DamagedFileError(path, "it has a row that is longer than any table has")
    yield head + text


def _shared_texts(path: Path, book: zipfile.ZipFile) -> list[str]:
    """Return the texts that cells refer to by number; few writers have them."""
    if _SHARED not in book.namelist():
        return []
    content = book.read(_SHARED)
    if _DOCTYPE in content:
        raise UnsafeFileError(path, "it declares a document type, which no workbook has")
    return [_text_of(entry) for entry in ElementTree.fromstring(content)]


def _text_of(element: ElementTree.Element) -> str:
    """Return the text of a cell or a shared text: that of its `<t>`, directly or in runs of one format."""
    texts = [
        part.text or ""
        for child in element
        for part in (child if _name(child) == "r" else (child,))
        if _name(part) == "t"
    ]
    return _unescaped("".join(texts))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if "_x" in text else text


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
