"""Reads the sheets of an xlsx file row by row, with the standard library alone: docs/decisions/0037 says why."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar
from xml.etree import ElementTree

from torchparity.errors import DamagedFileError, UnsafeFileError

_SHEET = re.compile(r"xl/worksheets/sheet(\d{1,9})\.xml", re.ASCII)
_SHARED = "xl/sharedStrings.xml"
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_BYTES_AT_ONCE = 1 << 18
_MOST_BYTES = 8 << 30  # of a workbook when unpacked: a million rows have about one
_MOST_COLUMNS = 16_384
_DOCTYPE = b"<!DOCTYPE"
_Taken = TypeVar("_Taken")
Cells = dict[int, str]  # of a row, by the place of the column; blank ones are left out


def read_sheets(path: Path, take: Callable[[Iterator[Cells]], _Taken]) -> list[_Taken]:
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
                    taken.append(take(_rows(path, file, shared)))
            return taken
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DamagedFileError(path, f"it is no workbook, or cut short ({error})") from None
    except (ElementTree.ParseError, UnicodeDecodeError, LookupError) as error:
        raise DamagedFileError(path, f"its sheets are no XML ({error})") from None


def _refuse_bombs(path: Path, book: zipfile.ZipFile) -> None:
    unpacked = sum(entry.file_size for entry in book.infolist())
    if unpacked > _MOST_BYTES:
        raise DamagedFileError(path, f"it unpacks to {unpacked:,} bytes, more than any table has")


def _rows(path: Path, file: IO[bytes], shared: Sequence[str]) -> Iterator[Cells]:
    for row in _elements(path, file, "row"):
        yield dict(_cells(path, row, shared))


def _shared_texts(path: Path, book: zipfile.ZipFile) -> list[str]:
    """Return the texts that cells refer to by number; few writers have them."""
    if _SHARED not in book.namelist():
        return []
    with book.open(_SHARED) as file:
        return [_text_of(entry) for entry in _elements(path, file, "si")]


def _elements(path: Path, file: IO[bytes], wanted: str) -> Iterator[ElementTree.Element]:
    """Yield the elements of a name as they are read; what was read before is forgotten."""
    parser: ElementTree.XMLPullParser[Any] = ElementTree.XMLPullParser(("start", "end"))
    around: list[ElementTree.Element] = []
    end = b""
    while part := file.read(_BYTES_AT_ONCE):
        if _DOCTYPE in end + part:
            raise UnsafeFileError(path, "it declares a document type, which no workbook has")
        end = part[-len(_DOCTYPE) :]
        parser.feed(part)
        for event, element in _of_elements(parser):
            if event == "start":
                around.append(element)
                continue
            around.pop()
            if around and _name(element) == wanted:
                yield element
                around[-1].clear()
    parser.close()


def _of_elements(parser: ElementTree.XMLPullParser[Any]) -> Iterator[tuple[str, ElementTree.Element]]:
    for entry in parser.read_events():
        event, element = entry[0], entry[-1]
        if isinstance(element, ElementTree.Element):
            yield event, element


def _cells(path: Path, row: ElementTree.Element, shared: Sequence[str]) -> Iterator[tuple[int, str]]:
    place = -1
    for cell in row:
        where = cell.get("r")
        place = place + 1 if where is None else _place(where)
        if place >= _MOST_COLUMNS:
            raise DamagedFileError(path, "it has more columns than a sheet")
        text = _content(path, cell, shared)
        if text:
            yield place, text


def _content(path: Path, cell: ElementTree.Element, shared: Sequence[str]) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return "".join(_text_of(child) for child in cell if _name(child) == "is")
    value = next((child.text or "" for child in cell if _name(child) == "v"), "")
    if kind == "s":
        if not value.isdecimal() or int(value) >= len(shared):
            raise DamagedFileError(path, f"a cell refers to the text {value[:20]!r}, which is not there")
        return shared[int(value)]
    if kind == "b":
        return "True" if value == "1" else "False"
    return _unescaped(value)


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


def _place(where: str) -> int:
    """Return the place of a cell's column: 0 for A1, 26 for AA7."""
    place = 0
    for letter in where:
        if not "A" <= letter <= "Z":
            break
        place = place * 26 + ord(letter) - 64
    return place - 1
