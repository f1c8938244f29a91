"""Hooks on the nodes that a call made: they see its gradients, and nothing is inserted into the graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import msgspec
import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node

from torchparity.calls.call import Call
from torchparity.calls.gradients.edges import End, Ends, InputEdges, ends_of
from torchparity.calls.gradients.sums import GradientSums, Whole, at_end_of_backward_pass
from torchparity.calls.guard.boundary import Boundary

Gradient = torch.Tensor
Arriving = Sequence[tuple[int, int]]  # places at which gradients arrive at a node, and the slots of the outputs
_OF_TORCH = re.compile(r"[A-Z]\w*Backward\d+")


class Telling(Protocol):
    """The dispatcher, as far as gradients need it."""

    boundary: Boundary

    def tell_gradients(self, call: Call, received: Whole, returned: Whole) -> None: ...


class _Watch(msgspec.Struct, eq=False):
    """What the hooks of one call share."""

    call: Call
    dispatcher: Any  # a Telling

    def at_end_of_pass(self, settle: Callable[[], Whole]) -> None:
        """Tell at the end of the backward pass what `settle` returns then."""
        at_end_of_backward_pass(
            lambda: self.dispatcher.boundary.run(self.call.name, lambda: self._tell_settled(settle()))
        )

    def _tell_settled(self, returned: Whole) -> None:
        if returned:
            self.dispatcher.tell_gradients(self.call, [], returned)


def watch_call(call: Call, outputs: Sequence[torch.Tensor], dispatcher: Telling) -> list[Any]:
    """Hook the nodes that a call made; return the handles of hooks on tensors that outlive the graph.

    Raises `ForeignGraphError` before it hooks anything.
    """
    heads = [(slot, tensor) for slot, tensor in enumerate(outputs) if tensor.requires_grad]
    if heads:
        before = call.edges or InputEdges(call.tensors, call.sequence)
        return _watch_outputs(before, heads, _Watch(call, dispatcher))
    mutated = call.mutated() if call.edges is not None else None
    if mutated is not None and mutated.grad_fn is not None and call.edges is not None:
        # A call that returns nothing and changes its first argument, such as `x[0] = y`.
        _hook_nodes({}, ends_of([mutated.grad_fn], call.edges), _Watch(call, dispatcher))
    return []


def _watch_outputs(before: InputEdges, heads: Sequence[tuple[int, torch.Tensor]], watch: _Watch) -> list[Any]:
    roots: dict[Node, list[tuple[int, int]]] = {}
    aliases: list[tuple[Node, int, int, Sequence[int]]] = []
    leaves: list[tuple[int, torch.Tensor]] = []
    for slot, tensor in heads:
        node = tensor.grad_fn
        if node is None:
            leaves.append((slot, tensor))
            continue
        place = tensor.output_nr
        alias_slots = before.edges.get((node, place))
        if alias_slots:
            aliases.append((node, place, slot, alias_slots))
        else:
            roots.setdefault(node, []).append((place, slot))
    ends = ends_of(roots, before)
    for node, place, slot, aliased in aliases:
        node.register_prehook(_Arriving(((place, slot),), aliased, watch))
    _hook_nodes(roots, ends, watch)
    return [_watch_leaf(tensor, slot, before, watch) for slot, tensor in leaves] if leaves else []


def _hook_nodes(roots: dict[Node, list[tuple[int, int]]], found: Ends, watch: _Watch) -> None:
    sums = GradientSums(found.ends, watch.at_end_of_pass) if found.needs_sums else None
    for end in found.ends:
        arriving: Arriving = ()
        if end.node in roots and _leaves_gradients_alone(type(end.node)):
            arriving = roots.pop(end.node)
        summing = None if sums is None else _Summing(end, arriving, sums, watch)
        end.node.register_hook(summing or _Passing(end.inputs, arriving, watch))
    for node, places in roots.items():
        node.register_prehook(_Arriving(places, (), watch))


@cache
def _leaves_gradients_alone(kind: type[Node]) -> bool:
    """Tell whether nodes of a kind change no gradient they are given: torch's own do not, a user's may."""
    return _OF_TORCH.fullmatch(kind.__name__) is not None and not issubclass(kind, BackwardCFunction)


class _Arriving(msgspec.Struct, eq=False):
    """Sees what flows in at the outputs of a call before their node runs."""

    places: Arriving
    aliased: Sequence[int]
    watch: _Watch

    def __call__(self, gradients: Sequence[Gradient | None]) -> None:
        self.watch.dispatcher.boundary.run(self.watch.call.name, self._tell, gradients)

    def _tell(self, gradients: Sequence[Gradient | None]) -> None:
        received = _present(gradients, self.places)
        # The call returned its input: the gradient passes unchanged.
        returned = [(alias, gradient) for _, gradient in received for alias in self.aliased]
        if received:
            self.watch.dispatcher.tell_gradients(self.watch.call, received, returned)


class _Passing(msgspec.Struct, eq=False):
    """Sees what a node computed for the inputs of a call and, where that is the same node, what it computed it from."""

    inputs: list[tuple[int, int]]
    arriving: Arriving
    watch: _Watch

    def __call__(self, inputs: Sequence[Gradient | None], outputs: Sequence[Gradient | None]) -> None:
        self.watch.dispatcher.boundary.run(self.watch.call.name, self._tell, inputs, outputs)

    def _tell(self, inputs: Sequence[Gradient | None], outputs: Sequence[Gradient | None]) -> None:
        received, returned = _present(outputs, self.arriving), _present(inputs, self.inputs)
        if received or returned:
            self.watch.dispatcher.tell_gradients(self.watch.call, received, returned)


class _Summing(msgspec.Struct, eq=False):
    """Sees what a node computed where it may be a part of an input's gradient only."""

    end: End
    arriving: Arriving
    sums: GradientSums
    watch: _Watch

    def __call__(self, inputs: Sequence[Gradient | None], outputs: Sequence[Gradient | None]) -> None:
        self.watch.dispatcher.boundary.run(self.watch.call.name, self._tell, inputs, outputs)

    def _tell(self, inputs: Sequence[Gradient | None], outputs: Sequence[Gradient | None]) -> None:
        received = _present(outputs, self.arriving)
        returned: Whole = []
        for place, slot in self.end.inputs:
            returned += self.sums.add(slot, None, inputs[place])
        for place, slot, dtype in self.end.casts:
            returned += self.sums.add(slot, dtype, inputs[place])
        if received or returned:
            self.watch.dispatcher.tell_gradients(self.watch.call, received, returned)


def _present(gradients: Sequence[Gradient | None], places: Arriving) -> Whole:
    return [(slot, gradient) for place, slot in places if (gradient := gradients[place]) is not None]


def _watch_leaf(tensor: torch.Tensor, slot: int, before: InputEdges, watch: _Watch) -> Any:
    """Hook a leaf that a call returned as it was: the gradient of output and input is the leaf's."""
    arriving = _Arriving(((0, slot),), before.leaves.get(id(tensor), ()), watch)
    return tensor.register_hook(lambda gradient: arriving((gradient,)))  # type: ignore[no-untyped-call]
