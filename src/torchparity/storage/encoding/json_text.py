"""JSON text of runs: written strictly, read with the deviations of other tools, with a limit on nesting.

The standard parser is loaded where msgspec, which is faster, cannot do the work.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from torchparity.errors import DamagedFileError
from torchparity.storage.files.untrusted import read_file

if TYPE_CHECKING:
    import json

_encode_lines = msgspec.json.Encoder().encode_lines
_NEXT_RECORD = r'\n {0,2}(?="[^"\n]{1,4096}": ?[{\[n])'


def encode(value: Any) -> bytes:
    """Return strict JSON; half a surrogate pair in a text becomes a question mark."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        import json

        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        return text.encode(errors="replace")


def encode_each(values: Sequence[Any]) -> list[bytes]:
    """Return the strict JSON of each of many values, faster than one by one."""
    try:
        return _encode_lines(values).splitlines()
    except UnicodeEncodeError:
        return list(map(encode, values))


def encode_bare(value: Any) -> bytes:
    """Return JSON with bare NaN and Infinity, as msprobe writes and reads it."""
    import json

    return json.dumps(value).encode()


def decode(content: bytes, path: Path) -> Any:
    """Return the decoded document; accept the bare NaN and Infinity that other tools write."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        import json  # accepts NaN
    except RecursionError:
        raise DamagedFileError(path, "it is nested too deeply to be a record of this kind") from None
    try:
        return _without_halves(json.loads(content), content)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(path, f"it is not valid JSON ({_short(error)})") from None


def read_document(path: Path) -> Any:
    return decode(read_file(path), path)


def salvage_data(content: bytes, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the head and the whole entries of `data` from a document that breaks off.

    Reads key by key until the text stops making sense. Raises `DamagedFileError` when
    there is nothing to save.
    """
    import json

    text = content.decode("utf-8", errors="replace")
    scanner, position, head = json.JSONDecoder(), text.find("{") + 1, dict[str, Any]()
    try:
        while position:
            key, position = scanner.raw_decode(text, _skip(text, position, ","))
            position = _skip(text, position, ":")
            if key == "data" and text.startswith("{", position):
                return head, _without_halves(_entries(scanner, text, position + 1), content)
            head[str(key)], position = scanner.raw_decode(text, position)
    except (ValueError, RecursionError, TypeError):
        pass  # the head itself is broken
    raise DamagedFileError(path, "it is not valid JSON and nothing in it can be read")


def _entries(scanner: json.JSONDecoder, text: str, position: int) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    next_record_at = re.compile(_NEXT_RECORD)
    while True:
        try:
            key, position = scanner.raw_decode(text, _skip(text, position, ","))
            value, position = scanner.raw_decode(text, _skip(text, position, ":"))
            if not isinstance(key, str):
                raise TypeError
            entries[key] = value
        except (ValueError, RecursionError, TypeError):
            # Every tool begins a record on a line of its own: go on with the next one.
            next_record = next_record_at.search(text, position)
            if next_record is None:
                return entries
            position = next_record.end()


def _without_halves(value: Any, content: bytes) -> Any:
    """Return a decoded document without half surrogate pairs, which no file, table or terminal can hold."""
    if b"\\ud" not in content.lower():
        return value
    import json

    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def _skip(text: str, position: int, separator: str) -> int:
    while position < len(text) and (text[position].isspace() or text[position] == separator):
        position += 1
    return position


def _short(error: BaseException) -> str:
    return str(error)[:120]
