"""Encoding records as the JSON of dump.json, which msprobe reads too."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import msgspec

from torchparity.naming import Direction
from torchparity.records import GroupLeaf, Leaf, Nest, Record, Statistics, TensorLeaf, ValueLeaf, number_to_json
from torchparity.storage.encoding.finite_tensors import TENSOR, finite_tensor, finite_tensors_json
from torchparity.storage.encoding.json_text import encode

STATISTICS = (("Max", "max"), ("Min", "min"), ("Mean", "mean"), ("Norm", "norm"))
COUNTS = (
    ("nan", "nan_count"),
    ("inf", "inf_count"),
    ("neg_inf", "negative_inf_count"),
    ("zero", "zero_count"),
)
MEMORY_FORMAT = "torch.memory_format"
NumberSpelling = Callable[[Any], Any]
LeafSpelling = Callable[[Leaf], Any]
_MOST_KEPT = 1 << 16
_AS_THEY_ARE = frozenset({int, bool, str, type(None)})
# What encoding raises for a value that JSON cannot hold: a set, an object, a nest without end.
UNENCODABLE = (TypeError, ValueError, AttributeError, RecursionError, OverflowError)


class EncodedRecord(msgspec.Struct, frozen=True, gc=False):
    """A record whose entry is JSON already."""

    name: str
    direction: Direction
    entry: bytes


class EncodedStep(msgspec.Struct, frozen=True, gc=False):
    """The records of a step: the lines of dump.json, joined, and those of debug.json one by one."""

    lines: bytes | memoryview = b""
    records: int = 0  # in `lines`
    debug: Sequence[EncodedRecord] = ()


def tensor_json(leaf: TensorLeaf) -> msgspec.Raw:
    """Return a tensor's entry as JSON."""
    statistics, needed = leaf.statistics, leaf.requires_grad
    is_plain = leaf.type == TENSOR and leaf.data_name is None and leaf.layout is None
    if is_plain and statistics is not None and needed is not None:
        entry = finite_tensor(leaf.dtype, leaf.shape, statistics, needed, leaf.checksum, leaf.origin)
        if entry is not None:
            return finite_tensors_json([entry])[0]
    return msgspec.Raw(encode(_tensor_to_json(leaf, number_to_json)))


def argument_json(leaf: Leaf) -> Any:
    """Return the entry of any argument but a tensor; msgspec encodes most leaves as they are."""
    if type(leaf) is ValueLeaf and leaf.type != MEMORY_FORMAT:
        value = leaf.value
        if type(value) in _AS_THEY_ARE or (type(value) is float and isfinite(value)):
            return leaf
    return leaf_to_json(leaf)


def assemble_record(record: Record) -> EncodedRecord:
    """Return the JSON of a record whose arguments are JSON already, by the functions above."""
    return EncodedRecord(record.name, record.direction, msgspec.json.encode(_entry(record, _as_it_is)))


def encode_record(record: Record) -> EncodedRecord:
    """Return a finished record as JSON, whatever is in it."""
    return EncodedRecord(record.name, record.direction, encode(record_to_json(record)))


def _as_it_is(nest: Any) -> Any:
    return nest


def leaf_to_json(leaf: Leaf, number: NumberSpelling = number_to_json) -> Any:
    if leaf is None:
        return None
    if isinstance(leaf, TensorLeaf):
        return _tensor_to_json(leaf, number)
    if isinstance(leaf, GroupLeaf):
        return {"type": leaf.type, "group_ranks": list(leaf.ranks), "group_id": leaf.id}
    value = leaf.value
    if leaf.type == MEMORY_FORMAT:  # msprobe's key and spelling
        return {"type": leaf.type, "format": str(value).removeprefix("torch.")}
    if isinstance(value, list):
        value = [number(part) for part in value]
    return {"type": leaf.type, "value": number(value)}


def _tensor_to_json(leaf: TensorLeaf, number: NumberSpelling) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": leaf.type, "dtype": leaf.dtype, "shape": leaf.shape}
    statistics = leaf.statistics
    if statistics is not None:
        entry["Max"], entry["Min"] = number(statistics.max), number(statistics.min)
        entry["Mean"], entry["Norm"] = number(statistics.mean), number(statistics.norm)
    elif leaf.checksum is not None:
        entry["md5"] = leaf.checksum  # with xor msprobe has it here
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
    if statistics is not None and statistics.nan_count is not None:
        if _has_nonfinite(statistics):
            entry |= {key: count for key, field in COUNTS if (count := getattr(statistics, field))}
            entry["finite"] = {key: number(getattr(statistics, f"finite_{field}")) for key, field in STATISTICS}
        if statistics.zero_count or statistics.sketch is None:
            entry["zero"] = statistics.zero_count or 0  # its presence, or a sketch's, says that counts left out are 0
    if statistics is not None and statistics.sketch is not None:
        entry["sketch"] = sketch_to_json(statistics.sketch)
    if leaf.numel == 0:
        entry["numel"] = 0
    if leaf.origin is not None:
        entry["from"] = leaf.origin
    return entry


def sketch_to_json(sketch: bytes) -> str:
    """Return a sketch as base64 text without padding."""
    return b2a_base64(sketch, newline=False).rstrip(b"=").decode()


def _has_nonfinite(statistics: Statistics) -> bool:
    return bool(statistics.nan_count or statistics.inf_count or statistics.negative_inf_count)


class EncodedLeaves:
    """A cache of encoded leaves: a tensor leaf that many records share is encoded once."""

    def __init__(self) -> None:
        self._encoded: dict[int, tuple[TensorLeaf, msgspec.Raw]] = {}

    def __call__(self, leaf: Leaf) -> Any:
        if type(leaf) is not TensorLeaf:
            return leaf_to_json(leaf)
        encoded = self._encoded.get(id(leaf))
        if encoded is None:
            if len(self._encoded) >= _MOST_KEPT:
                self._encoded.clear()
            # The cache holds the leaf too, so that its id is not reused.
            encoded = self._encoded[id(leaf)] = leaf, tensor_json(leaf)
        return encoded[1]


def nest_to_json(nest: Nest, leaf: LeafSpelling) -> Any:
    if isinstance(nest, (list, tuple)):
        return [nest_to_json(entry, leaf) for entry in nest]
    if isinstance(nest, dict):
        return {str(key): nest_to_json(entry, leaf) for key, entry in nest.items()}
    return leaf(nest)


def record_to_json(record: Record, leaf: LeafSpelling = leaf_to_json) -> Any:
    """Return the entry of `data`; `leaf` turns a leaf into JSON."""
    return _entry(record, lambda nest: nest_to_json(nest, leaf))


def _entry(record: Record, nest: Callable[[Nest], Any]) -> Any:
    if record.direction == "debug":
        return nest(record.value)
    if record.direction == "parameters_grad":
        return {name: [nest(gradient)] for name, gradient in record.gradients.items()}
    if record.direction == "backward":
        entry: dict[str, Any] = {
            "input": nest(record.input_args),
            "output": nest(record.output),
        }
        if record.output_kwargs:
            entry["output_kwargs"] = nest(record.output_kwargs)
    else:
        entry = {
            "input_args": nest(record.input_args),
            "input_kwargs": nest(record.input_kwargs),
            "output": nest(record.output),
        }
        if record.parameters is not None:
            entry["parameters"] = nest(record.parameters)
        entry["is_recompute"] = record.is_recompute
    if record.in_backward:
        entry["in_backward"] = True
    if record.error is not None:
        entry["error"] = record.error
    if record.seconds is not None:
        entry["seconds"] = round(record.seconds, 9)
    return entry
