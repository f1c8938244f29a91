"""Records in the making: nests of what a call saw, turned into `Record`s when the step ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import torch

from torchparity.capture._lists import FEWEST, ListMeter, SeenList
from torchparity.capture._meter import Meter, SeenTensor
from torchparity.capture._storing import StoringMeter
from torchparity.naming import Direction
from torchparity.records import GroupLeaf, Nest, Record, describe
from torchparity.storage import SharedTensor

_DEEPEST = 32
_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_SCALARS = frozenset({bool, int, float, str})


class Slot:
    """The place of a gradient: which tensor of a call it belongs to."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class Observer:
    """Turns arguments into nests of what was seen."""

    def __init__(self, meter: Meter | StoringMeter) -> None:
        self._meter = meter
        self._lists = ListMeter(meter) if isinstance(meter, Meter) else None

    def forget(self) -> None:
        """Begin another step."""
        if self._lists is not None:
            self._lists.forget()

    def nest(self, value: Any, *, keep: bool = True, depth: int = 0) -> Any:
        kind = type(value)
        if kind in _TENSORS or isinstance(value, torch.Tensor):
            return self._meter.see(value, keep=keep)
        if value is None or kind in _SCALARS:
            return describe(value)
        if isinstance(value, torch.Size) or depth > _DEEPEST:
            return describe(value)
        if isinstance(value, (list, tuple)):
            if len(value) >= FEWEST and keep and self._lists is not None and set(map(type, value)) <= _TENSORS:
                seen = self._lists.see(value)
                if seen is not None:
                    return seen
            return [self.nest(entry, keep=keep, depth=depth + 1) for entry in value]
        if isinstance(value, Mapping):
            return {_key(key): self.nest(entry, keep=keep, depth=depth + 1) for key, entry in value.items()}
        if isinstance(value, torch.distributed.ProcessGroup):
            return _group(value)
        return describe(value)


def _key(key: Any) -> str:
    """Return a mapping's key as part of an item name, in which a dot separates."""
    return str(key).replace(".", "_")


def _group(group: Any) -> GroupLeaf:
    ranks = torch.distributed.get_process_group_ranks(group)
    return GroupLeaf(ranks=tuple(ranks), id=getattr(group, "group_name", None))


def differentiable(value: Any, found: list[tuple[int, torch.Tensor]]) -> Any:
    """Return a nest with a `Slot` for every tensor that requires a gradient, and list those tensors."""
    if isinstance(value, torch.Tensor):
        if not value.requires_grad:
            return None
        found.append((len(found), value))
        return Slot(len(found) - 1)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return [differentiable(entry, found) for entry in value]
    if isinstance(value, Mapping):
        return {_key(key): differentiable(entry, found) for key, entry in value.items()}
    return None


class Draft(msgspec.Struct, gc=False):
    """A record in the making; `values` collects the tensors to store by item name when it is finished.

    Not tracked by the garbage collector, like all that is kept until the step ends: it would
    walk thousands of objects, again and again, in the middle of a training step.
    """

    name: str
    direction: Direction
    input_args: list[Any] = []
    input_kwargs: dict[str, Any] = {}
    output: list[Any] = []
    output_kwargs: dict[str, Any] = {}
    parameters: dict[str, Any] | None = None
    gradients: dict[str, Any] = {}
    value: Any = None
    is_recompute: bool = False
    in_backward: bool = False
    error: str | None = None
    seconds: float | None = None

    def finish(self) -> tuple[Record, dict[str, SharedTensor]]:
        """Return the record and the values of its items."""
        values: dict[str, SharedTensor] = {}
        record = Record(
            name=self.name,
            direction=self.direction,
            input_args=_leaves("input", self.input_args, values),
            input_kwargs=_leaves("input", self.input_kwargs, values),
            output=_leaves("output", self.output, values),
            output_kwargs=_leaves("output", self.output_kwargs, values),
            parameters=None if self.parameters is None else _leaves("parameters", self.parameters, values),
            gradients=_leaves("", self.gradients, values),
            value=_leaves("", self.value, values),
            is_recompute=self.is_recompute,
            in_backward=self.in_backward,
            error=self.error,
            seconds=self.seconds,
        )
        return record, values


def _leaves(name: str, nest: Any, values: dict[str, SharedTensor]) -> Nest:
    if isinstance(nest, SeenTensor):
        if nest.measurement is not None and nest.measurement.values is not None:
            values[name] = nest.measurement.values
        return nest.leaf()
    if isinstance(nest, Slot):
        return None  # no gradient came
    if isinstance(nest, SeenList):
        nest = nest.tensors
    prefix = f"{name}." if name else ""
    if isinstance(nest, list):
        return [_leaves(f"{prefix}{index}", entry, values) for index, entry in enumerate(nest)]
    if isinstance(nest, dict):
        return {key: _leaves(f"{prefix}{key}", entry, values) for key, entry in nest.items()}
    return nest


class BackwardDraft:
    """The backward records of one call: one for each pass over its part of the graph."""

    __slots__ = ("in_kwargs", "inputs", "name", "outputs", "passes")

    def __init__(self, name: str, inputs: Any, in_kwargs: Any, outputs: Any) -> None:
        self.name = name
        self.inputs, self.in_kwargs, self.outputs = inputs, in_kwargs, outputs
        self.passes: dict[int, Draft] = {}

    def fill(self, task: int, side: str, slot: int, seen: SeenTensor) -> Draft | None:
        """Put a gradient into its place; return the draft if this pass has just begun."""
        draft, is_new = self.passes.get(task), False
        if draft is None:
            again = f"#{len(self.passes) + 1}" if self.passes else ""
            draft, is_new = Draft(self.name + again, "backward"), True
            draft.input_args, draft.output, draft.output_kwargs = self.outputs, self.inputs, self.in_kwargs
            self.passes[task] = draft
        if side == "output":
            draft.input_args = _filled(draft.input_args, slot, seen)
        else:
            draft.output = _filled(draft.output, slot, seen)
            draft.output_kwargs = _filled(draft.output_kwargs, slot, seen)
        return draft if is_new else None


def _filled(nest: Any, slot: int, seen: SeenTensor) -> Any:
    if isinstance(nest, Slot):
        return seen if nest.index == slot else nest
    if isinstance(nest, list):
        return [_filled(entry, slot, seen) for entry in nest]
    if isinstance(nest, dict):
        return {key: _filled(entry, slot, seen) for key, entry in nest.items()}
    return nest
