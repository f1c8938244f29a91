"""Hooks on the nodes that a call made: they see its gradients, and nothing is inserted into the graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node

from torchparity.calls.call import Call
from torchparity.calls.gradients.edges import End, InputEdges, Target, ends_of
from torchparity.calls.gradients.sums import GradientSums, Whole, at_end_of_backward_pass
from torchparity.calls.guard.boundary import Boundary

Gradient = torch.Tensor
_OF_TORCH = re.compile(r"[A-Z]\w*Backward\d+")


class Telling(Protocol):
    """The dispatcher, as far as gradients need it."""

    boundary: Boundary

    def tell_gradients(self, call: Call, received: Whole, returned: Whole) -> None: ...


def watch_call(call: Call, output: Any, dispatcher: Telling) -> list[Any]:
    """Hook the nodes that a call made; return the handles of hooks on tensors that outlive the graph.

    Raises `ForeignGraphError` before it hooks anything.
    """
    outputs = call.outputs(output).tensors
    mutated = call.mutated()
    if mutated is None and not any(tensor.requires_grad for tensor in outputs):
        return []
    before = call.edges or InputEdges(call.inputs().tensors, call.sequence)
    watch = _Watch(call, dispatcher)
    if any(tensor.requires_grad for tensor in outputs):
        return _watch_outputs(before, outputs, watch)
    if mutated is not None and mutated.grad_fn is not None:
        # A call that returns nothing and changes its first argument, such as `x[0] = y`.
        _hook_nodes({}, ends_of([mutated.grad_fn], before), watch)
    return []


class _Watch:
    """What the hooks of one call share."""

    __slots__ = ("call", "dispatcher")

    def __init__(self, call: Call, dispatcher: Telling) -> None:
        self.call, self.dispatcher = call, dispatcher

    def at_end_of_pass(self, settle: Callable[[], Whole]) -> None:
        """Tell at the end of the backward pass what `settle` returns then."""
        at_end_of_backward_pass(
            lambda: self.dispatcher.boundary.run(self.call.name, lambda: self._tell_settled(settle()))
        )

    def _tell_settled(self, returned: Whole) -> None:
        if returned:
            self.dispatcher.tell_gradients(self.call, [], returned)


def _watch_outputs(before: InputEdges, outputs: Sequence[torch.Tensor], watch: _Watch) -> list[Any]:
    roots: dict[Node, list[tuple[int, int]]] = {}  # with the places at which gradients arrive, and their slots
    aliases: list[tuple[Node, int, int, Sequence[int]]] = []
    leaves: list[tuple[int, torch.Tensor]] = []
    for slot, tensor in enumerate(outputs):
        if not tensor.requires_grad:
            continue
        node = tensor.grad_fn
        if node is None:
            leaves.append((slot, tensor))
            continue
        place = tensor.output_nr
        aliased = before.slots_of(node, place)
        if aliased:
            aliases.append((node, place, slot, aliased))
        else:
            roots.setdefault(node, []).append((place, slot))
    ends = ends_of(roots, before)
    handles = [_watch_leaf(tensor, slot, before, watch) for slot, tensor in leaves]
    for node, place, slot, aliased in aliases:
        node.register_prehook(_Arriving([(place, slot)], aliased, watch))
    _hook_nodes(roots, ends, watch)
    return handles


def _hook_nodes(roots: dict[Node, list[tuple[int, int]]], ends: Sequence[End], watch: _Watch) -> None:
    sums = GradientSums(ends, watch.at_end_of_pass) if GradientSums.are_needed(ends) else None
    for node, targets in ends:
        arriving: Sequence[tuple[int, int]] = ()
        if node in roots and _leaves_gradients_alone(type(node)):
            arriving = roots.pop(node)
        node.register_hook(_Passing(targets, arriving, sums, watch))
    for node, places in roots.items():
        node.register_prehook(_Arriving(places, (), watch))


@cache
def _leaves_gradients_alone(kind: type[Node]) -> bool:
    """Tell whether nodes of a kind change no gradient they are given: torch's own do not, a user's may."""
    return _OF_TORCH.fullmatch(kind.__name__) is not None and not issubclass(kind, BackwardCFunction)


class _Arriving:
    """Sees what flows in at the outputs of a call before their node runs."""

    __slots__ = ("_aliased", "_places", "_watch")

    def __init__(self, places: Sequence[tuple[int, int]], aliased: Sequence[int], watch: _Watch) -> None:
        self._places, self._aliased, self._watch = places, aliased, watch

    def __call__(self, gradients: Sequence[Gradient | None]) -> None:
        self._watch.dispatcher.boundary.run(self._watch.call.name, self._tell, gradients)

    def _tell(self, gradients: Sequence[Gradient | None]) -> None:
        received = [(slot, gradient) for place, slot in self._places if (gradient := gradients[place]) is not None]
        # The call returned its input: the gradient passes unchanged.
        returned = [(alias, gradient) for _, gradient in received for alias in self._aliased]
        if received:
            self._watch.dispatcher.tell_gradients(self._watch.call, received, returned)


class _Passing:
    """Sees what a node computed for the inputs of a call and, where that is the same node, what it computed it from."""

    __slots__ = ("_arriving", "_sums", "_targets", "_watch")

    def __init__(
        self,
        targets: Sequence[tuple[int, Target]],
        arriving: Sequence[tuple[int, int]],
        sums: GradientSums | None,
        watch: _Watch,
    ) -> None:
        self._targets, self._arriving, self._sums, self._watch = targets, arriving, sums, watch

    def __call__(self, inputs: Sequence[Gradient | None], outputs: Sequence[Gradient | None]) -> None:
        self._watch.dispatcher.boundary.run(self._watch.call.name, self._tell, inputs, outputs)

    def _tell(self, inputs: Sequence[Gradient | None], outputs: Sequence[Gradient | None]) -> None:
        received, returned = [], []
        for place, slot in self._arriving:
            gradient = outputs[place]
            if gradient is not None:
                received.append((slot, gradient))
        for place, target in self._targets:
            gradient = inputs[place]
            if self._sums is not None:
                returned += self._sums.add(target, gradient)
            elif gradient is not None:
                returned.append((target.slot, gradient))
        if received or returned:
            self._watch.dispatcher.tell_gradients(self._watch.call, received, returned)


def _watch_leaf(tensor: torch.Tensor, slot: int, before: InputEdges, watch: _Watch) -> Any:
    """Hook a leaf that a call returned as it was: the gradient of output and input is the leaf's."""
    arriving = _Arriving([(0, slot)], before.slots_of_leaf(tensor), watch)
    return tensor.register_hook(lambda gradient: arriving((gradient,)))  # type: ignore[no-untyped-call]
