"""Reading config.json and compare.json: every field is converted to its type or refused in one sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from torchparity.config.consistency import check_consistency
from torchparity.config.refusals import bad_value, choices, field_of_block, unknown_field, wanted
from torchparity.config.settings import LARGEST_INDEX, CaptureConfig, CompareConfig, Indices, Size, offered
from torchparity.errors import ConfigError

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?i?B)", re.ASCII)
_UNITS = {"B": 1} | {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)}
_UNITS |= {f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)}
_TEXT_OR_COMMENT = re.compile(rb'"(?:\\.|[^"\\])*"|#[^\r\n]*')
_SPAN = re.compile(r"(\d{1,7})(?:\s*-\s*(\d{1,7}))?", re.ASCII)
# The template that came with msprobe 8.2.0 has these for another framework or another tool; recording never read them.
_FOREIGN = frozenset({"grad_probe"})
_FOREIGN_FIELDS = {"tensor": "file_format", "overflow_check": "check_mode"}

Settings = TypeVar("Settings", bound=msgspec.Struct)


def load_capture_config(path: str | Path) -> CaptureConfig:
    """Read config.json; raise `ConfigError` in one sentence for anything it cannot mean."""
    return capture_config(read_settings(Path(path)), source=str(path))


def capture_config(values: Mapping[str, Any], *, source: str = "config") -> CaptureConfig:
    """Return settings from a mapping, checked field by field and against each other."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{source}: settings are a mapping of fields, not a {type(values).__name__}.")
    prepared = {
        key: _PREPARED[key](value, key, source) if key in _PREPARED else _without_foreign(key, value)
        for key, value in values.items()
        if (value is not None or key not in ("rank", "step")) and key not in _FOREIGN
    }
    config = _struct(CaptureConfig, prepared, source, "")
    check_consistency(config, source)
    return config


def _without_foreign(block: str, value: Any) -> Any:
    foreign = _FOREIGN_FIELDS.get(block)
    return {key: each for key, each in value.items() if key != foreign} if isinstance(value, dict) else value


def load_compare_config(path: str | Path) -> CompareConfig:
    """Read compare.json; raise `ConfigError` in one sentence for anything it cannot mean."""
    settings = read_settings(Path(path), example='{"npu_path": "CANDIDATE", "bench_path": "BASELINE"}')
    return _struct(CompareConfig, settings, str(path), "")


def read_settings(path: Path, *, example: str = '{"task": "statistics"}') -> dict[str, Any]:
    """Return a settings file's fields as they are; raise `ConfigError` if it is no JSON object."""
    try:
        content = msgspec.json.decode(_without_comments(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON: {error}.") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold a JSON object such as {example}.")
    return content


def _without_comments(text: bytes) -> bytes:
    """Return JSON with blanks in place of comments behind "#", as msprobe's documents print them."""
    return _TEXT_OR_COMMENT.sub(lambda found: b" " * len(found[0]) if found[0].startswith(b"#") else found[0], text)


def _struct(kind: type[Settings], values: Any, source: str, where: str) -> Settings:
    """Build a settings struct, refusing unknown keys by their nearest valid spelling."""
    if not isinstance(values, Mapping):
        raise bad_value(source, where, values, "an object with fields " + ", ".join(kind.__struct_fields__))
    hints, required = _fields(kind)
    for key in values:
        if key not in hints:
            blocks = [name for name, hint in hints.items() if key in getattr(hint, "__struct_fields__", ())]
            if blocks:
                raise field_of_block(source, _dotted(where, str(key)), blocks)
            raise unknown_field(source, str(key), _dotted(where, str(key)), offered(kind.__struct_fields__))
    for key in required:
        if key not in values:
            raise ConfigError(f"{source}: field {_dotted(where, key)!r} is missing.")
    converted = {key: _value(hints[key], value, source, _dotted(where, key)) for key, value in values.items()}
    return kind(**converted)


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[dict[str, Any], list[str]]:
    """Return the types of a struct's fields, and those that must be given; working them out takes a while."""
    hints = get_type_hints(kind, include_extras=True)
    return hints, [field.name for field in msgspec.structs.fields(kind) if field.required]


def _value(hint: Any, value: Any, source: str, where: str) -> Any:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct(hint, value, source, where)
    try:
        return msgspec.convert(value, hint, strict=True)
    except msgspec.ValidationError:
        raise bad_value(source, where, value, wanted(hint), choices(hint)) from None


def _dotted(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _indices(value: Any, field: str, source: str) -> list[int]:
    """Return the numbers that `[0, 2]`, `"3"`, `"4-6"` or a list of those mean."""
    numbers: list[int] = []
    for part in value if isinstance(value, (list, tuple, range)) else [value]:
        span = _SPAN.fullmatch(part.strip()) if isinstance(part, str) else None
        number = part if type(part) is int else -1
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (number, number)
        if not 0 <= first <= last <= LARGEST_INDEX:
            raise bad_value(source, field, value, str(get_args(Indices)[1]))
        numbers.extend(range(first, last + 1))
    return numbers


def _size(value: Any, field: str, source: str) -> int | None:
    """Return the bytes that a whole number or text such as "20GB" means; None is no limit."""
    text = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    size = int(float(text[1]) * _UNITS[text[2]]) if text and text[2] in _UNITS else value
    if size is not None and (type(size) is not int or size < 1):
        raise bad_value(source, field, value, str(get_args(Size)[1]))
    return size


_PREPARED = {"rank": _indices, "step": _indices, "max_bytes": _size}
