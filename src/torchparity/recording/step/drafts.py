"""Records in the making: nests of what a call saw, turned into `Record`s when the step ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec
import torch

from torchparity.naming import Direction
from torchparity.recording.measuring.geometry import PLAIN, POINT_TO_POINT
from torchparity.recording.measuring.measurement_cache import MeasurementCache
from torchparity.recording.measuring.observed import ObservedList, ObservedTensor
from torchparity.recording.measuring.tensor_lists import FEWEST
from torchparity.records import GroupLeaf, Nest, Record, describe
from torchparity.storage import EncodedRecord, SharedTensor, encoded, encoded_record, encoded_value

_DEEPEST = 32
_MOST = 100_000  # lists and the like within one argument
_SCALARS = frozenset({bool, int, float, str})


class _Around:
    """The containers around what is looked at: objects may refer to one another in a circle."""

    __slots__ = ("_inside", "_left")

    def __init__(self) -> None:
        self._inside: list[int] = []
        self._left = _MOST

    def enter(self, container: Any) -> bool:
        """Go into a container, unless it is around already, too deep inside, or one of far too many."""
        if id(container) in self._inside or len(self._inside) >= _DEEPEST or not self._left:
            return False
        self._left -= 1
        self._inside.append(id(container))
        return True

    def leave(self) -> None:
        self._inside.pop()


class Observer:
    """Turns arguments into nests of what was seen."""

    def __init__(self, measurements: MeasurementCache, *, keep_values: bool = False) -> None:
        self._measurements, self._keep_values = measurements, keep_values
        self._observe = measurements.observe

    def look(
        self, values: Sequence[Any], found: list[torch.Tensor] | None, *, keep: bool = True
    ) -> tuple[list[Any], list[Any]]:
        """Return the nests of some arguments and, where `found` is given, the slots of their gradients."""
        if len(values) >= FEWEST and keep:
            seen = self._as_list(values)
            if seen is not None:
                return seen.tensors, [] if found is None else [slots_of(value, found) for value in values]
        nests: list[Any] = []
        slots: list[Any] = []
        for value in values:
            if type(value) in PLAIN:
                nests.append(self._observe(value, remember=keep, keep_values=self._keep_values))
                if found is not None:
                    if value.requires_grad:
                        slots.append(len(found))
                        found.append(value)
                    else:
                        slots.append(None)
            else:
                nests.append(self.nest(value, keep=keep))
                if found is not None:
                    slots.append(slots_of(value, found))
        return nests, slots

    def _as_list(self, values: Sequence[Any]) -> ObservedList | None:
        return None if self._keep_values else self._measurements.observe_list(values)

    def nest(self, value: Any, *, keep: bool = True, around: _Around | None = None) -> Any:
        kind = type(value)
        if kind in PLAIN or isinstance(value, torch.Tensor):
            return self._observe(value, remember=keep, keep_values=self._keep_values)
        if value is None or kind in _SCALARS:
            return describe(value)
        if isinstance(value, torch.distributed.ProcessGroup):
            return _group(value)
        if isinstance(value, (list, tuple)) and len(value) >= FEWEST and keep:
            seen = self._as_list(value)
            if seen is not None:
                return seen
        entries = _entries(value)
        around = around or _Around()
        if entries is None or not around.enter(value):
            return describe(value)
        if isinstance(entries, Mapping):
            nest: Any = {key: self.nest(entry, keep=keep, around=around) for key, entry in entries.items()}
        else:
            nest = [self.nest(entry, keep=keep, around=around) for entry in entries]
        around.leave()
        return nest


def _entries(value: Any) -> Sequence[Any] | Mapping[str, Any] | None:
    """Return what a container holds, by place or by name; None for what is none."""
    if isinstance(value, (list, tuple)):
        return None if isinstance(value, torch.Size) else value
    if isinstance(value, Mapping):
        return _named(value)
    if isinstance(value, POINT_TO_POINT):
        return {"op": value.op.__name__, "tensor": value.tensor, "peer": value.peer, "group": value.group}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in fields(value)}  # one may not be there
    return None


def _named(entries: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a mapping with keys that are parts of item names, in which a dot separates; no two keys become one."""
    named: dict[str, Any] = {}
    for key, entry in entries.items():
        name = str(key).replace(".", "_")
        while name in named:
            name += "_"
        named[name] = entry
    return named


def _group(group: Any) -> GroupLeaf:
    ranks = torch.distributed.get_process_group_ranks(group)
    return GroupLeaf(ranks=tuple(ranks), id=getattr(group, "group_name", None))


def slots_of(value: Any, found: list[torch.Tensor], around: _Around | None = None) -> Any:
    """Return a nest with a number for every tensor that requires a gradient, and list those tensors."""
    if value is None or type(value) in _SCALARS:
        return None
    if isinstance(value, torch.Tensor):
        if not value.requires_grad:
            return None
        found.append(value)
        return len(found) - 1
    entries = _entries(value)
    around = around or _Around()
    if entries is None or not around.enter(value):
        return None
    if isinstance(entries, Mapping):
        slots: Any = {key: slots_of(entry, found, around) for key, entry in entries.items()}
    else:
        slots = [slots_of(entry, found, around) for entry in entries]
    around.leave()
    return slots


class Draft(msgspec.Struct, gc=False):
    """A record in the making; not tracked by the garbage collector, like all that is kept until the step ends.

    In a backward record places are numbers of slots, and `arrived` has the gradients that came:
    first those of the outputs, then those of the inputs. So has the gradient of a value saved by hand.
    """

    name: str
    direction: Direction
    input_args: list[Any] | None = None
    input_kwargs: dict[str, Any] | None = None
    output: list[Any] | None = None
    output_kwargs: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None
    gradients: dict[str, Any] | None = None
    value: Any = None
    is_recompute: bool = False
    in_backward: bool = False
    error: str | None = None
    seconds: float | None = None
    moment: int = 0  # when it was complete: records are in that order
    arrived: tuple[dict[int, ObservedTensor], dict[int, ObservedTensor]] | None = None

    def encoded(self) -> EncodedRecord:
        """Return the record as JSON."""
        try:
            return encoded(self._record(lambda name, nest: _json(nest)))
        except UnicodeEncodeError:  # half a surrogate pair in a text
            return encoded_record(self.finish()[0])

    def finish(self) -> tuple[Record, dict[str, SharedTensor]]:
        """Return the record and the values of its items."""
        values: dict[str, SharedTensor] = {}
        return self._record(lambda name, nest: _leaves(name, nest, values)), values

    def _record(self, turn: Callable[[str, Any], Any]) -> Record:
        """Return the record with its nests turned into what is asked for, each by the name of its items."""
        self._fill_slots()
        return Record(
            name=self.name,
            direction=self.direction,
            input_args=turn("input", self.input_args or []),
            input_kwargs=turn("input", self.input_kwargs or {}),
            output=turn("output", self.output or []),
            output_kwargs=turn("output", self.output_kwargs or {}),
            parameters=None if self.parameters is None else turn("parameters", self.parameters),
            gradients=turn("", self.gradients or {}),
            value=turn("", self.value),
            is_recompute=self.is_recompute,
            in_backward=self.in_backward,
            error=self.error,
            seconds=self.seconds,
        )

    def _fill_slots(self) -> None:
        if self.arrived is not None:
            flowing_in, flowing_out = self.arrived
            self.input_args, self.arrived = _filled(self.input_args, flowing_in), None
            self.output = _filled(self.output, flowing_out)
            self.value = _filled(self.value, flowing_in)
            self.output_kwargs = _filled(self.output_kwargs, flowing_out)


def _leaves(name: str, nest: Any, values: dict[str, SharedTensor]) -> Nest:
    if isinstance(nest, ObservedTensor):
        if nest.measurement is not None and nest.measurement.values is not None:
            values[name] = nest.measurement.values
        return nest.leaf()
    if isinstance(nest, ObservedList):
        nest = nest.tensors
    prefix = f"{name}." if name else ""
    if isinstance(nest, list):
        return [_leaves(f"{prefix}{index}", entry, values) for index, entry in enumerate(nest)]
    if isinstance(nest, dict):
        return {key: _leaves(f"{prefix}{key}", entry, values) for key, entry in nest.items()}
    return nest


def _json(nest: Any) -> Any:
    """Return a nest as msgspec writes it."""
    kind = type(nest)
    if kind is ObservedTensor:
        return nest.encoded()
    if kind is list:
        return [_json(entry) for entry in nest]
    if nest is None:
        return None
    if kind is dict:
        return {key: _json(entry) for key, entry in nest.items()}
    if kind is ObservedList:
        return [seen.encoded() for seen in nest.tensors]
    return encoded_value(nest)


class BackwardDraft:
    """The backward records of one call: one for each pass over its part of the graph."""

    __slots__ = ("in_kwargs", "inputs", "name", "outputs", "passes")

    def __init__(self, name: str, inputs: Any, in_kwargs: Any, outputs: Any) -> None:
        self.name = name
        self.inputs, self.in_kwargs, self.outputs = inputs, in_kwargs, outputs
        self.passes: dict[int, Draft] = {}

    def begin(self, task: int) -> Draft:
        """Return the draft of another pass."""
        again = f"#{len(self.passes) + 1}" if self.passes else ""
        draft = self.passes[task] = Draft(
            self.name + again,
            "backward",
            input_args=self.outputs,
            output=self.inputs,
            output_kwargs=self.in_kwargs or None,
            arrived=({}, {}),
        )
        return draft


def _filled(nest: Any, arrived: Mapping[int, ObservedTensor]) -> Any:
    """Return a nest with the gradients that came in place of the numbers of their slots."""
    if type(nest) is int:
        return arrived.get(nest)
    if isinstance(nest, list):
        return [_filled(entry, arrived) for entry in nest]
    if isinstance(nest, dict):
        return {key: _filled(entry, arrived) for key, entry in nest.items()}
    return nest
