"""The fast decoder of records, for nearly all of them; several times faster than decoding to plain JSON first.

The structs below name the keys that nearly every record has and nothing else. A record with another key or
another kind of value is decoded as plain JSON and read by `decode_any.py`, which knows all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from torchparity.naming import Direction
from torchparity.records import Leaf, Location, Nest, Record, Statistics, TensorLeaf, ValueLeaf
from torchparity.storage.encoding import decode_any
from torchparity.storage.encoding.encode import MEMORY_FORMAT
from torchparity.storage.encoding.json_text import decode

_HEAD = ("task", "level", "framework", "dump_data_dir", "torchparity", "origins")
_Number = float | int | bool | str | None | UnsetType


class _Leaf(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: str
    dtype: str | UnsetType = UNSET
    shape: tuple[int, ...] | UnsetType = UNSET
    Max: _Number = UNSET
    Min: _Number = UNSET
    Mean: _Number = UNSET
    Norm: _Number = UNSET
    requires_grad: bool | None = None
    md5: str | None = None
    data_name: str | None = None
    stored_in: Location | None = None
    layout: str | None = None
    zero: int | UnsetType = UNSET
    sketch: str | None = None
    numel: int = 0
    value: Any = None
    format: str | UnsetType = UNSET
    origin: int | None = msgspec.field(name="from", default=None)


_Entries = _Leaf | None | list[_Leaf | None]


class _Record(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    input_args: list[_Entries] | None = None
    input: list[_Entries] | UnsetType | None = UNSET
    input_kwargs: dict[str, _Entries] | None = None
    output: list[_Entries] | None = None
    output_kwargs: dict[str, _Entries] | None = None
    parameters: dict[str, _Entries] | None = None
    is_recompute: bool | None = None
    in_backward: bool | None = None
    error: str | None = None
    seconds: float | int | None = None


_RECORDS = msgspec.json.Decoder(_Record)
_GRADIENTS = msgspec.json.Decoder(dict[str, _Entries])
_PLAIN = frozenset({int, float, bool, type(None)})  # of an argument: what JSON has is the value


class _Document(msgspec.Struct, gc=False):
    data: dict[str, Raw]
    task: Any = UNSET
    level: Any = UNSET
    framework: Any = UNSET
    dump_data_dir: Any = UNSET
    torchparity: Any = UNSET
    origins: Any = UNSET


class _UnusualError(Exception):
    """A record that only `decode_any` can read."""


def quick_entries(content: bytes) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the head of a dump.json and its records undecoded; None where it is not plain, strict JSON."""
    try:
        document = msgspec.json.decode(content, type=_Document)
        if not content.isascii():
            content.decode()  # invalid UTF-8 would otherwise show up only when its record is decoded
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    head = {name: value for name in _HEAD if (value := getattr(document, name)) is not UNSET}
    return head, dict(document.data)


class QuickDecoder:
    """Decodes the records of one file; equal shapes and equal dtypes share one object."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._dtypes: dict[str, str] = {}

    def record(self, name: str, entry: Any, *, debug: bool) -> Record:
        """Return the record of one entry of `data`; raise `MalformedError` for what cannot be one."""
        if not isinstance(entry, Raw):
            return decode_any.record_from_json(name, entry, debug=debug)
        if not debug:
            try:
                direction = decode_any.direction_of_name(name)
                if direction == "parameters_grad":
                    return self._gradients(name, _GRADIENTS.decode(entry))
                return self._record(name, direction, _RECORDS.decode(entry))
            except (msgspec.ValidationError, _UnusualError):
                pass  # it has keys or values that few records have
        return decode_any.record_from_json(name, decode(bytes(entry), self._path), debug=debug)

    def _gradients(self, name: str, entry: dict[str, Any]) -> Record:
        gradients = {key: decode_any.only(self._nest(nest)) for key, nest in entry.items()}
        return Record(name=name, direction="parameters_grad", gradients=gradients)

    def _record(self, name: str, direction: Direction | None, entry: _Record) -> Record:
        if direction is None:
            direction = "forward" if entry.input is UNSET else "backward"
        elif direction == "debug":
            raise _UnusualError
        received = entry.input if direction == "backward" else entry.input_args
        return Record(
            name=name,
            direction=direction,
            input_args=self._list(received),
            input_kwargs=self._dict(entry.input_kwargs) if entry.input_kwargs else {},
            output=self._list(entry.output),
            output_kwargs=self._dict(entry.output_kwargs) if entry.output_kwargs else {},
            parameters=None if entry.parameters is None else self._dict(entry.parameters),
            is_recompute=entry.is_recompute is True,
            in_backward=entry.in_backward is True,
            error=entry.error,
            seconds=decode_any.seconds_of(entry.seconds),
        )

    def _list(self, entries: list[Any] | UnsetType | None) -> list[Nest]:
        if not entries:
            return []
        return [self._leaf(entry) if type(entry) is _Leaf else self._nest(entry) for entry in entries]

    def _dict(self, entries: dict[str, Any]) -> dict[str, Nest]:
        return {key: self._nest(entry) for key, entry in entries.items()}

    def _nest(self, entry: Any) -> Nest:
        if entry is None:
            return None
        return self._list(entry) if isinstance(entry, list) else self._leaf(entry)

    def _leaf(self, entry: _Leaf) -> Leaf:
        if entry.type != "torch.Tensor":
            return _argument(entry)
        shape = self._shapes.get(entry.shape)  # type: ignore[arg-type]
        return TensorLeaf(
            dtype=self._dtypes.setdefault(entry.dtype, entry.dtype) if entry.dtype else _unusual(),
            shape=self._checked(entry.shape) if shape is None else shape,
            statistics=_statistics(entry),
            requires_grad=entry.requires_grad,
            checksum=entry.md5,
            data_name=entry.data_name,
            stored_in=entry.stored_in,
            layout=entry.layout,
            origin=entry.origin,
        )

    def _checked(self, shape: tuple[int, ...] | UnsetType) -> tuple[int, ...]:
        if shape is UNSET or not decode_any.is_shape(list(shape)):
            raise _UnusualError  # decode_any raises with the reason
        self._shapes[shape] = shape
        return shape


def _argument(entry: _Leaf) -> Leaf:
    if entry.format is not UNSET or entry.type == "numpy.ndarray":
        if entry.type != MEMORY_FORMAT:
            raise _UnusualError
        return ValueLeaf(entry.type, f"torch.{entry.format}")
    if entry.value.__class__ in _PLAIN:
        return ValueLeaf(entry.type, entry.value)
    return decode_any.leaf_from_json(entry.type, {"value": entry.value})


def _statistics(entry: _Leaf) -> Statistics | None:
    largest, smallest, mean, norm = entry.Max, entry.Min, entry.Mean, entry.Norm
    if type(largest) is not float or type(smallest) is not float or type(mean) is not float or type(norm) is not float:
        if largest is smallest is mean is norm is UNSET:
            return None
        largest, smallest, mean, norm = (
            None if value is UNSET else decode_any.statistic_of(value) for value in (largest, smallest, mean, norm)
        )
    sketch = None if entry.sketch is None else decode_any.sketch_of(entry.sketch)
    zeros = entry.zero
    if zeros is UNSET:
        if sketch is None:
            return Statistics(max=largest, min=smallest, mean=mean, norm=norm)
        zeros = 0
    return Statistics(largest, smallest, mean, norm, largest, smallest, mean, norm, 0, 0, 0, zeros, sketch)


def _unusual() -> str:
    raise _UnusualError
