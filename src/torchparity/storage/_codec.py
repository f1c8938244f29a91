"""Records to and from the JSON of dump.json, as msprobe writes it and as we do."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import Any

import msgspec

from torchparity.errors import RecordNameError
from torchparity.naming import Direction, parse_record
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
    number_to_json,
)
from torchparity.storage._json import encode

_STATISTICS = (("Max", "max"), ("Min", "min"), ("Mean", "mean"), ("Norm", "norm"))
_COUNTS = (
    ("nan", "nan_count"),
    ("inf", "inf_count"),
    ("neg_inf", "negative_inf_count"),
    ("zero", "zero_count"),
)
_TENSOR_TYPES = ("torch.Tensor", "numpy.ndarray")
_MEMORY_FORMAT = "torch.memory_format"
NumberSpelling = Callable[[Any], Any]
LeafSpelling = Callable[[Leaf], Any]
_MOST_KEPT = 1 << 16
_DEEPEST = 64
_MOST_DIMENSIONS = 64
_MOST_ELEMENTS = 1 << 62


class MalformedError(ValueError):
    """A JSON value that no record can have; the reader adds the file and the record's name."""


def leaf_to_json(leaf: Leaf, number: NumberSpelling = number_to_json) -> Any:
    if leaf is None:
        return None
    if isinstance(leaf, TensorLeaf):
        return _tensor_to_json(leaf, number)
    if isinstance(leaf, GroupLeaf):
        return {"type": leaf.type, "group_ranks": list(leaf.ranks), "group_id": leaf.id}
    value = leaf.value
    if leaf.type == _MEMORY_FORMAT:  # msprobe's key and spelling
        return {"type": leaf.type, "format": str(value).removeprefix("torch.")}
    if isinstance(value, list):
        value = [number(part) for part in value]
    return {"type": leaf.type, "value": number(value)}


def _tensor_to_json(leaf: TensorLeaf, number: NumberSpelling) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": leaf.type, "dtype": leaf.dtype, "shape": leaf.shape}
    kept = leaf.statistics
    if kept is not None:
        entry["Max"], entry["Min"] = number(kept.max), number(kept.min)
        entry["Mean"], entry["Norm"] = number(kept.mean), number(kept.norm)
    if leaf.requires_grad is not None:
        entry["requires_grad"] = leaf.requires_grad
    if leaf.checksum is not None:
        entry["md5"] = leaf.checksum
    if leaf.data_name is not None:
        entry["data_name"] = leaf.data_name
    if leaf.stored_in is not None:
        entry["stored_in"] = {"file": leaf.stored_in.file, "key": leaf.stored_in.key, "crc32": leaf.stored_in.crc32}
    if leaf.layout is not None:
        entry["layout"] = leaf.layout
    if kept is not None and kept.nan_count is not None:
        if _has_nonfinite(kept):
            entry |= {key: count for key, field in _COUNTS if (count := getattr(kept, field))}
            entry["finite"] = {key: number(getattr(kept, f"finite_{field}")) for key, field in _STATISTICS}
        entry["zero"] = kept.zero_count or 0  # its presence says that the counts left out are 0
    if leaf.numel == 0:
        entry["numel"] = 0
    return entry


def _has_nonfinite(kept: Statistics) -> bool:
    return bool(kept.nan_count or kept.inf_count or kept.negative_inf_count)


class EncodedLeaves:
    """Encodes leaves; a tensor that many records show is one leaf, and encoded once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[TensorLeaf, msgspec.Raw]] = {}

    def __call__(self, leaf: Leaf) -> Any:
        if type(leaf) is not TensorLeaf:
            return leaf_to_json(leaf)
        known = self._known.get(id(leaf))
        if known is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            # The leaf is kept as well, so that its id is nobody else's.
            known = self._known[id(leaf)] = leaf, msgspec.Raw(encode(_tensor_to_json(leaf, number_to_json)))
        return known[1]


def nest_to_json(nest: Nest, leaf: LeafSpelling) -> Any:
    if isinstance(nest, (list, tuple)):
        return [nest_to_json(entry, leaf) for entry in nest]
    if isinstance(nest, dict):
        return {str(key): nest_to_json(entry, leaf) for key, entry in nest.items()}
    return leaf(nest)


def record_to_json(record: Record, leaf: LeafSpelling = leaf_to_json) -> Any:
    """Return the entry of `data`; `leaf` turns a leaf into JSON."""
    if record.direction == "debug":
        return nest_to_json(record.value, leaf)
    if record.direction == "parameters_grad":
        return {name: [nest_to_json(gradient, leaf)] for name, gradient in record.gradients.items()}
    if record.direction == "backward":
        entry: dict[str, Any] = {
            "input": nest_to_json(record.input_args, leaf),
            "output": nest_to_json(record.output, leaf),
        }
        if record.output_kwargs:
            entry["output_kwargs"] = nest_to_json(record.output_kwargs, leaf)
    else:
        entry = {
            "input_args": nest_to_json(record.input_args, leaf),
            "input_kwargs": nest_to_json(record.input_kwargs, leaf),
            "output": nest_to_json(record.output, leaf),
        }
        if record.parameters is not None:
            entry["parameters"] = nest_to_json(record.parameters, leaf)
        entry["is_recompute"] = record.is_recompute
    if record.in_backward:
        entry["in_backward"] = True
    if record.error is not None:
        entry["error"] = record.error
    if record.seconds is not None:
        entry["seconds"] = record.seconds
    return entry


def record_from_json(name: str, entry: Any, *, debug: bool = False) -> Record:
    """Return the record of one entry of `data`; raise `MalformedError` for what cannot be one."""
    direction = "debug" if debug else direction_of(name, entry)
    if direction == "debug":
        return Record(name=name, direction=direction, value=nest_from_json(entry))
    if not isinstance(entry, dict):
        raise MalformedError("it is not a JSON object")
    if direction == "parameters_grad":
        gradients = {key: _only(nest_from_json(value)) for key, value in entry.items()}
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
    if not name.startswith("Module."):  # most names; parsing them all would take longer than all the rest
        if name.endswith(".forward"):
            return "forward"
        if name.endswith(".backward"):
            return "backward"
    try:
        return parse_record(name).direction
    except RecordNameError:
        # A tool's own naming (init dumps, custom prefixes) is no reason to lose a record.
        return "backward" if isinstance(entry, dict) and "input" in entry else "forward"


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
    if kind == _MEMORY_FORMAT and "format" in entry:
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
    )


def _statistics_from_json(entry: dict[str, Any]) -> Statistics | None:
    if "Max" not in entry and "Min" not in entry and "Mean" not in entry and "Norm" not in entry:
        return None
    largest, smallest = statistic_of(entry.get("Max")), statistic_of(entry.get("Min"))
    mean, norm = statistic_of(entry.get("Mean")), statistic_of(entry.get("Norm"))
    if "zero" not in entry:
        return Statistics(max=largest, min=smallest, mean=mean, norm=norm)
    if "finite" not in entry and "nan" not in entry and "inf" not in entry and "neg_inf" not in entry:
        return finite_statistics(largest, smallest, mean, norm, entry["zero"])
    counts: dict[str, Any] = {field: entry.get(key, 0) for key, field in _COUNTS}
    if not _is_ints(list(counts.values())):
        raise MalformedError("a tensor's counts are not whole numbers")
    finite = entry.get("finite", entry)
    if not isinstance(finite, dict):
        raise MalformedError("a tensor's finite statistics are not an object")
    finites = {f"finite_{field}": statistic_of(finite.get(key)) for key, field in _STATISTICS}
    return Statistics(max=largest, min=smallest, mean=mean, norm=norm, **finites, **counts)


def finite_statistics(largest: Any, smallest: Any, mean: Any, norm: Any, zeros: Any) -> Statistics:
    """Return the statistics of nearly every tensor: nothing in it is nan or infinite."""
    if type(zeros) is not int:
        raise MalformedError("a tensor's counts are not whole numbers")
    return Statistics(
        max=largest,
        min=smallest,
        mean=mean,
        norm=norm,
        finite_max=largest,
        finite_min=smallest,
        finite_mean=mean,
        finite_norm=norm,
        nan_count=0,
        inf_count=0,
        negative_inf_count=0,
        zero_count=zeros,
    )


def statistic_of(value: Any) -> Any:
    if type(value) is float:
        return value
    number = number_from_json(value)
    if number is None or isinstance(number, (bool, int, float)):
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
    """A value is a scalar or a list of them; anything deeper no tool writes."""
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
    """Return the arguments; a tool that wrote one leaf or nothing instead of a list meant one or none."""
    nest = nest_from_json(value)
    return nest if isinstance(nest, list) else [] if nest is None else [nest]


def _dict(value: Any) -> dict[str, Nest]:
    nest = nest_from_json(value)
    if nest is None:
        return {}
    if not isinstance(nest, dict):
        raise MalformedError("keyword arguments are not a JSON object")
    return nest


def _only(nest: Nest) -> Nest:
    return nest[0] if isinstance(nest, list) and len(nest) == 1 else nest
