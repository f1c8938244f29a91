"""Decoding records from the JSON of dump.json, as msprobe or torchparity wrote it; `encode.py` is the inverse."""

from __future__ import annotations

import math
from binascii import a2b_base64
from math import prod
from typing import Any

from torchparity.errors import RecordNameError
from torchparity.naming import Direction, is_module_name, parse_record
from torchparity.records import (
    GroupLeaf,
    Leaf,
    Location,
    Nest,
    Record,
    Statistics,
    TensorLeaf,
    ValueLeaf,
    number_from_json,
)
from torchparity.storage.encoding.encode import COUNTS, MEMORY_FORMAT, STATISTICS

_TENSOR_TYPES = ("torch.Tensor", "numpy.ndarray")
_DEEPEST = 64
_MOST_DIMENSIONS = 64
_MOST_ELEMENTS = 1 << 62
_SKETCH_BYTES = (32, 64)
_LARGEST_STATISTIC = 1 << 1000  # near the end of float64, with room for a difference of two


class MalformedError(ValueError):
    """A JSON value that no record can have; the reader adds the file and the record's name."""


def record_from_json(name: str, entry: Any, *, debug: bool = False) -> Record:
    """Return the record of one entry of `data`; raise `MalformedError` for what cannot be one."""
    direction = "debug" if debug else direction_of(name, entry)
    if direction == "debug":
        return Record(name=name, direction=direction, value=nest_from_json(entry))
    if not isinstance(entry, dict):
        raise MalformedError("it is not a JSON object")
    if direction == "parameters_grad":
        gradients = {key: only(nest_from_json(value)) for key, value in entry.items()}
        return Record(name=name, direction=direction, gradients=gradients)
    parameters = entry.get("parameters")
    return Record(
        name=name,
        direction=direction,
        input_args=_list(entry.get("input" if direction == "backward" else "input_args")),
        input_kwargs=_dict(entry.get("input_kwargs")),
        output=_list(entry.get("output")),
        output_kwargs=_dict(entry.get("output_kwargs")),
        parameters=None if parameters is None else _dict(parameters),
        is_recompute=entry.get("is_recompute") is True,
        in_backward=entry.get("in_backward") is True,
        error=str(entry["error"]) if entry.get("error") is not None else None,
        seconds=seconds_of(entry.get("seconds")),
    )


def direction_of(name: str, entry: Any) -> Direction:
    direction = direction_of_name(name)
    if direction is not None:
        return direction
    # A tool's own naming (init dumps, custom prefixes) is no reason to lose a record.
    return "backward" if isinstance(entry, dict) and "input" in entry else "forward"


def direction_of_name(name: str) -> Direction | None:
    """Return the direction that a name tells; None where it is of no grammar."""
    if not is_module_name(name):  # most names; parsing them all would take longer than all the rest
        if name.endswith(".forward"):
            return "forward"
        if name.endswith(".backward"):
            return "backward"
    try:
        return parse_record(name).direction
    except RecordNameError:
        return None


def nest_from_json(value: Any, depth: int = 0) -> Nest:
    if value is None:
        return None
    if isinstance(value, list):
        if depth > _DEEPEST:
            raise MalformedError(f"an argument is nested more than {_DEEPEST} deep")
        return [nest_from_json(entry, depth + 1) for entry in value]
    if isinstance(value, dict):
        kind = value.get("type")
        # In a user's mapping every value is a leaf, so a text under "type" marks a leaf.
        if isinstance(kind, str):
            return leaf_from_json(kind, value)
        if depth > _DEEPEST:
            raise MalformedError(f"an argument is nested more than {_DEEPEST} deep")
        return {key: nest_from_json(entry, depth + 1) for key, entry in value.items()}
    return ValueLeaf(type(value).__name__, value)


def leaf_from_json(kind: str, entry: dict[str, Any]) -> Leaf:
    if kind in _TENSOR_TYPES:
        return _tensor_from_json(kind, entry)
    if "group_ranks" in entry:
        ranks = entry["group_ranks"]
        identity = entry.get("group_id")
        return GroupLeaf(
            ranks=tuple(ranks) if _is_ints(ranks) else (), id=None if identity is None else str(identity), type=kind
        )
    value = entry.get("value")
    if kind == MEMORY_FORMAT and "format" in entry:
        return ValueLeaf(kind, f"torch.{entry['format']}")
    if kind in ("complex", "complex64", "complex128") and isinstance(value, list):
        value = [number_from_json(part) for part in value]
    elif kind.startswith("float"):
        value = number_from_json(value)
    return ValueLeaf(kind, value if _is_flat(value) else None)


def _tensor_from_json(kind: str, entry: dict[str, Any]) -> TensorLeaf:
    shape: Any = entry.get("shape")
    if not is_shape(shape):
        raise MalformedError(f"a tensor has the shape {str(shape)[:60]}")
    data_name, stored_in, checksum = entry.get("data_name"), entry.get("stored_in"), entry.get("md5")
    requires_grad = entry.get("requires_grad")
    return TensorLeaf(
        type=kind,
        dtype=str(entry.get("dtype")),
        shape=tuple(shape),
        statistics=_statistics_from_json(entry),
        requires_grad=requires_grad if isinstance(requires_grad, bool) else None,
        checksum=checksum if isinstance(checksum, str) else None,
        data_name=data_name if isinstance(data_name, str) else None,
        stored_in=None if stored_in is None else _location(stored_in),
        layout=entry["layout"] if isinstance(entry.get("layout"), str) else None,
        origin=entry["from"] if type(entry.get("from")) is int else None,
    )


def _statistics_from_json(entry: dict[str, Any]) -> Statistics | None:
    if "Max" not in entry and "Min" not in entry and "Mean" not in entry and "Norm" not in entry:
        return None
    largest, smallest = statistic_of(entry.get("Max")), statistic_of(entry.get("Min"))
    mean, norm = statistic_of(entry.get("Mean")), statistic_of(entry.get("Norm"))
    sketch = sketch_of(entry.get("sketch"))
    if "zero" not in entry and sketch is None:
        return Statistics(max=largest, min=smallest, mean=mean, norm=norm)
    if "finite" not in entry and "nan" not in entry and "inf" not in entry and "neg_inf" not in entry:
        return finite_statistics(largest, smallest, mean, norm, entry.get("zero", 0), sketch)
    counts: dict[str, Any] = {field: entry.get(key, 0) for key, field in COUNTS}
    if not _is_ints(list(counts.values())):
        raise MalformedError("a tensor's counts are not whole numbers")
    finite = entry.get("finite", entry)
    if not isinstance(finite, dict):
        raise MalformedError("a tensor's finite statistics are not an object")
    finites = {f"finite_{field}": statistic_of(finite.get(key)) for key, field in STATISTICS}
    return Statistics(max=largest, min=smallest, mean=mean, norm=norm, **finites, **counts, sketch=sketch)


def finite_statistics(
    largest: Any, smallest: Any, mean: Any, norm: Any, zeros: Any, sketch: bytes | None
) -> Statistics:
    """Return the statistics of a tensor without nan and infinities; the zero count comes from the file, untrusted."""
    if type(zeros) is not int:
        raise MalformedError("a tensor's counts are not whole numbers")
    return Statistics.of_finite(largest, smallest, mean, norm, zeros, sketch)


def sketch_of(text: Any) -> bytes | None:
    """Return a sketch from its base64 text; raise `MalformedError` where it is not one."""
    if text is None:
        return None
    try:
        sketch = a2b_base64(text + "==")
    except (TypeError, ValueError):
        sketch = b""
    if len(sketch) not in _SKETCH_BYTES:
        raise MalformedError("a tensor's sketch is not 32 or 64 bytes in base64")
    return sketch


def statistic_of(value: Any) -> Any:
    if type(value) is float:
        return value
    number = number_from_json(value)
    if number is None or isinstance(number, float) or (isinstance(number, int) and abs(number) < _LARGEST_STATISTIC):
        return number
    if isinstance(number, str) and number.strip().lower() in ("nan", "inf", "-inf"):
        return math.nan if number.strip().lower() == "nan" else float(number)
    raise MalformedError(f"a statistic is {str(value)[:40]!r}")


def _location(value: Any) -> Location:
    if isinstance(value, dict):
        file, key, crc32 = value.get("file"), value.get("key"), value.get("crc32")
        if isinstance(file, str) and isinstance(key, str) and isinstance(crc32, str):
            return Location(file, key, crc32)
    raise MalformedError("a tensor's stored_in does not say file, key and crc32")


def seconds_of(value: Any) -> float | None:
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 1 << 53):
        return float(value)
    return None


def _is_flat(value: Any) -> bool:
    """Tell whether a value is a scalar or a list of scalars; no tool writes deeper values."""
    if isinstance(value, list):
        return not any(isinstance(part, (list, dict)) for part in value)
    return not isinstance(value, dict)


def _is_ints(value: Any) -> bool:
    return isinstance(value, list) and set(map(type, value)) <= {int}


def is_shape(value: Any) -> bool:
    return (
        _is_ints(value)
        and len(value) <= _MOST_DIMENSIONS
        and min(value, default=0) >= 0
        and prod(value) <= _MOST_ELEMENTS
    )


def _list(value: Any) -> list[Nest]:
    """Return a list of arguments; some tools write a single leaf, or nothing, instead of a list."""
    nest = nest_from_json(value)
    return nest if isinstance(nest, list) else [] if nest is None else [nest]


def _dict(value: Any) -> dict[str, Nest]:
    nest = nest_from_json(value)
    if nest is None:
        return {}
    if not isinstance(nest, dict):
        raise MalformedError("keyword arguments are not a JSON object")
    return nest


def only(nest: Nest) -> Nest:
    return nest[0] if isinstance(nest, list) and len(nest) == 1 else nest
