"""Records in the making: what a call's arguments looked like and what was observed of their tensors.

A draft is turned into a `Record`, or straight into its JSON, by whoever writes the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from torchparity.naming import Direction
from torchparity.recording.measuring.lineage import Source
from torchparity.recording.measuring.observed import ObservedTensor
from torchparity.records import Nest, Record
from torchparity.storage import EncodedRecord, SharedTensor
from torchparity.storage.encoding import argument_json, assemble_record, encode_record

Observed = Sequence[ObservedTensor] | dict[int, ObservedTensor]  # by the indexes that forms have
_NOTHING: tuple[ObservedTensor, ...] = ()


class Draft(msgspec.Struct, gc=False):
    """A record in the making; not tracked by the garbage collector, like all that is kept until the step ends.

    Arguments are forms (calls/arguments.py): `inputs` and `outputs` have the tensors that
    their numbers stand for. In a backward record those are gradients, of which some may not come.
    """

    name: str
    direction: Direction
    input_args: tuple[Any, ...] | None = None
    input_kwargs: dict[str, Any] | None = None
    output: tuple[Any, ...] | None = None
    output_kwargs: dict[str, Any] | None = None
    value: Any = None
    inputs: Observed = _NOTHING
    outputs: Observed = _NOTHING
    parameters: dict[str, ObservedTensor] | None = None
    gradients: dict[str, ObservedTensor] | None = None
    is_recompute: bool = False
    in_backward: bool = False
    error: str | None = None
    seconds: float | None = None
    source: Source | None = None  # of what it makes
    moment: int = 0  # when it was complete: records are in that order

    def encoded(self) -> EncodedRecord:
        """Return the record as JSON."""
        try:
            return assemble_record(self.record(lambda name, form, tensors: _json(form, tensors)))
        except UnicodeEncodeError:  # half a surrogate pair in a text
            return encode_record(self.finish()[0])

    def finish(self) -> tuple[Record, dict[str, SharedTensor]]:
        """Return the record and the values of its items."""
        values: dict[str, SharedTensor] = {}
        return self.record(lambda name, form, tensors: _leaves(name, form, tensors, values)), values

    def record(self, turn: Callable[[str, Any, Tensors], Any]) -> Record:
        """Return the record with its forms turned into what is asked for, each by the name of its items."""
        inputs, outputs = Tensors(self.inputs), Tensors(self.outputs)
        return Record(
            name=self.name,
            direction=self.direction,
            input_args=turn("input", self.input_args, inputs) if self.input_args else [],
            input_kwargs=turn("input", self.input_kwargs, inputs) if self.input_kwargs else {},
            output=turn("output", self.output, outputs) if self.output else [],
            output_kwargs=turn("output", self.output_kwargs, outputs) if self.output_kwargs else {},
            parameters=None if self.parameters is None else turn("parameters", self.parameters, inputs),
            gradients=turn("", self.gradients, inputs) if self.gradients else {},
            value=None if self.value is None else turn("", self.value, inputs),
            is_recompute=self.is_recompute,
            in_backward=self.in_backward,
            error=self.error,
            seconds=self.seconds,
        )


class Tensors:
    """The observed tensors of one side; of gradients, which are a mapping, nothing else of the form is shown."""

    __slots__ = ("are_gradients", "get")

    def __init__(self, observed: Observed) -> None:
        self.are_gradients = isinstance(observed, dict)
        self.get: Callable[[int], ObservedTensor | None] = (
            observed.get if isinstance(observed, dict) else observed.__getitem__
        )


def _leaves(name: str, form: Any, tensors: Tensors, values: dict[str, SharedTensor]) -> Nest:
    kind = type(form)
    if kind is int:
        form = tensors.get(form)
        kind = type(form)
    if kind is ObservedTensor:
        if form.measurement is not None and form.measurement.values is not None:
            values[name] = form.measurement.values
        leaf: Nest = form.leaf()
        return leaf
    prefix = f"{name}." if name else ""
    if kind is tuple or kind is range:
        return [_leaves(f"{prefix}{index}", entry, tensors, values) for index, entry in enumerate(form)]
    if kind is dict:
        return {key: _leaves(f"{prefix}{key}", entry, tensors, values) for key, entry in form.items()}
    return None if tensors.are_gradients else form


def _json(form: Any, tensors: Tensors) -> Any:
    """Return a form as msgspec writes it."""
    kind = type(form)
    if kind is tuple or kind is range:
        # Nearly every entry is a tensor: those are not worth a call of this function each.
        return [_tensor_json(tensors.get(entry)) if type(entry) is int else _json(entry, tensors) for entry in form]
    if form is None:
        return None
    if kind is int:
        return _tensor_json(tensors.get(form))
    if kind is dict:
        return {key: _json(entry, tensors) for key, entry in form.items()}
    if kind is ObservedTensor:
        return form.encoded()
    return None if tensors.are_gradients else argument_json(form)


def _tensor_json(observed: ObservedTensor | None) -> msgspec.Raw | None:
    return None if observed is None else observed.cached_json or observed.encoded()
