"""JSON as runs need it: strict when written, forgiving when read, never deep enough to hurt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from torchparity.errors import DamagedFileError
from torchparity.storage._files import read_file


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


def encode_bare(value: Any) -> bytes:
    """Return JSON with bare NaN and Infinity, as msprobe writes and reads it."""
    return json.dumps(value).encode()


def decode(content: bytes, path: Path) -> Any:
    """Return the decoded document; accept the bare NaN and Infinity that other tools write."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # the standard parser is slower and accepts NaN
    except RecursionError:
        raise DamagedFileError(path, "it is nested too deeply to be a record of this kind") from None
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(path, f"it is not valid JSON ({_short(error)})") from None


def read_document(path: Path) -> Any:
    return decode(read_file(path), path)


def salvage_data(content: bytes, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the head and the whole entries of `data` from a document that breaks off.

    Reads key by key until the text stops making sense. Raises `DamagedFileError` when
    there is nothing to save.
    """
    text = content.decode("utf-8", errors="replace")
    scanner, position, head = json.JSONDecoder(), text.find("{") + 1, dict[str, Any]()
    try:
        while position:
            key, position = scanner.raw_decode(text, _skip(text, position, ","))
            position = _skip(text, position, ":")
            if key == "data" and text.startswith("{", position):
                return head, _entries(scanner, text, position + 1)
            head[str(key)], position = scanner.raw_decode(text, position)
    except (ValueError, RecursionError, TypeError):
        pass  # the head itself is broken
    raise DamagedFileError(path, "it is not valid JSON and nothing in it can be read")


def _entries(scanner: json.JSONDecoder, text: str, position: int) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    try:
        while True:
            key, position = scanner.raw_decode(text, _skip(text, position, ","))
            value, position = scanner.raw_decode(text, _skip(text, position, ":"))
            if not isinstance(key, str):
                return entries
            entries[key] = value
    except (ValueError, RecursionError, TypeError):
        return entries


def _skip(text: str, position: int, separator: str) -> int:
    while position < len(text) and (text[position].isspace() or text[position] == separator):
        position += 1
    return position


def _short(error: BaseException) -> str:
    return str(error)[:120]
