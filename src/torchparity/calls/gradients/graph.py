"""Autograd's graph around one call: the nodes that the call made, and those that lead to its inputs.

Before a call the gradient edges of its inputs are taken; after it the graph is walked
from the outputs back to those edges. The nodes passed were made by this call. What flows
out of each node that ends in an input's edge is that input's gradient; where several
nodes lead to one input each gives a part, and their sum is the gradient. Nothing is
inserted into the graph: hooks on its own nodes see what flows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import torch
from torch.autograd.graph import Node

from torchparity.calls.gradients.hooks import Arriving, Hooks, Passing, Places, Summing, leaves_gradients_alone
from torchparity.calls.gradients.sums import End, GradientSums

Edge = tuple[Node, int]
_CAST = "ToCopyBackward0"
_Accumulator: Any = torch._C._functions.AccumulateGrad  # type: ignore[attr-defined]
_MOST_SEARCHED = 10_000


class ForeignGraphError(Exception):
    """A call's inputs are reached through nodes that cannot be told to be its own.

    Nodes are numbered by thread, so what another thread made looks older than the call.
    """

    def __init__(self) -> None:
        super().__init__("part of its graph was made by another thread or before the call; its gradients are left out")


class Ends(msgspec.Struct, eq=False, gc=False):
    """All ends of one call; sums are needed where an input's gradient has several parts, or is cast."""

    ends: list[End]
    needs_sums: bool


class InputEdges:
    """The gradient edges of a call's inputs; a slot is an index into the call's tensors.

    Made before a call that may change its inputs, and after any other: reading `grad_fn` of a view
    whose base was modified in place creates a node, and the engine would run that node earlier than
    without us. Nodes numbered `sequence` or higher were made by the call.
    """

    __slots__ = ("edges", "leaves", "sequence")

    def __init__(self, tensors: Sequence[torch.Tensor], sequence: int) -> None:
        self.sequence = sequence
        self.edges: dict[Edge, list[int]] = {}
        self.leaves: dict[int, list[int]] = {}  # by identity: the call holds the tensors
        for slot, tensor in enumerate(tensors):
            if tensor.requires_grad:
                node = tensor.grad_fn
                if node is None:
                    self.leaves.setdefault(id(tensor), []).append(slot)
                else:
                    self.edges.setdefault((node, tensor.output_nr), []).append(slot)

    @property
    def are_none(self) -> bool:
        """True where no input requires a gradient."""
        return not (self.edges or self.leaves)

    def slots_of(self, node: Any, output: int) -> Sequence[int]:
        """Return the inputs whose gradient flows along this edge."""
        if type(node) is _Accumulator:
            return self.leaves.get(id(node.variable), ())
        return self.edges.get((node, output), ())

    def casts_by(self, node: Node) -> list[tuple[int, torch.dtype]]:
        """Return the leaves that a node casts, with their dtype."""
        leaf: Any = node.next_functions[0][0]
        if type(leaf) is not _Accumulator:
            return []
        return [(slot, leaf.variable.dtype) for slot in self.leaves.get(id(leaf.variable), ())]


def watch_outputs(before: InputEdges, outputs: Sequence[tuple[int, torch.Tensor]], hooks: Hooks) -> list[Any]:
    """Hook the nodes that a call made; return the handles of hooks on tensors that outlive the graph.

    `outputs` are those that require a gradient. Raises `ForeignGraphError` before it hooks anything.
    """
    roots: dict[Node, Places] = {}
    aliases: list[tuple[Node, int, int, Sequence[int]]] = []
    leaves: list[tuple[int, torch.Tensor]] = []
    for slot, tensor in outputs:
        node = tensor.grad_fn
        if node is None:
            leaves.append((slot, tensor))
            continue
        place = tensor.output_nr
        alias_slots = before.edges.get((node, place))
        if alias_slots:
            aliases.append((node, place, slot, alias_slots))
        else:
            roots[node] = (*roots.get(node, ()), (place, slot))
    ends = _ends_of(roots, before)
    for node, place, slot, aliased in aliases:
        node.register_prehook(Arriving(((place, slot),), aliased, hooks))
    _hook_nodes(roots, ends, hooks)
    return [_watch_leaf(tensor, slot, before, hooks) for slot, tensor in leaves] if leaves else []


def watch_mutated(before: InputEdges, mutated: torch.Tensor, hooks: Hooks) -> None:
    """Hook the nodes of a call that returns nothing and changes its first argument, such as `x[0] = y`."""
    if mutated.grad_fn is not None:
        _hook_nodes({}, _ends_of([mutated.grad_fn], before), hooks)


def _hook_nodes(roots: dict[Node, Places], reached: Ends, hooks: Hooks) -> None:
    sums = GradientSums(reached.ends, hooks.at_end_of_pass) if reached.needs_sums else None
    for end in reached.ends:
        arriving: Places = ()
        if end.node in roots and leaves_gradients_alone(type(end.node)):
            arriving = roots.pop(end.node)
        summing = None if sums is None else Summing(end.inputs, end.casts, arriving, sums, hooks)
        end.node.register_hook(summing or Passing(end.inputs, arriving, hooks))
    for node, places in roots.items():
        node.register_prehook(Arriving(places, (), hooks))


def _watch_leaf(tensor: torch.Tensor, slot: int, before: InputEdges, hooks: Hooks) -> Any:
    """Hook a leaf that a call returned as it was: the gradient of output and input is the leaf's."""
    arriving = Arriving(((0, slot),), before.leaves.get(id(tensor), ()), hooks)
    return tensor.register_hook(lambda gradient: arriving((gradient,)))  # type: ignore[no-untyped-call]


def _ends_of(roots: Iterable[Node], before: InputEdges) -> Ends:
    """Visit the nodes made since `before` was; return those that end in an input's edge.

    Raises `ForeignGraphError` where an input is reached through nodes that are not the call's.
    """
    if before.are_none:  # as those of a whole model that is given tokens: its graph is the largest
        return Ends([], needs_sums=False)
    ends: list[End] = []
    waiting = list(roots)
    visited, older = set(waiting), list[Node]()
    while waiting:
        node = waiting.pop()
        if node._sequence_nr() < before.sequence:
            # What is older than the call was not made by it: a tensor it closed over.
            older.append(node)
            continue
        end, leading_on = _end_of(node, before)
        if end.inputs or end.casts:
            ends.append(end)
        for following in leading_on:
            if following not in visited:
                visited.add(following)
                waiting.append(following)
    if older and _leads_to_an_input(older, before):
        raise ForeignGraphError
    slots = [slot for end in ends for _, slot in end.inputs]
    return Ends(ends, needs_sums=len(set(slots)) < len(slots) or any(end.casts for end in ends))


def _end_of(node: Node, before: InputEdges) -> tuple[End, list[Node]]:
    """Return where a node ends in inputs' edges, and the nodes to which its other edges lead."""
    leaves, edges = before.leaves, before.edges
    end, leading_on = End(node), list[Node]()
    following: Any
    for place, (following, output) in enumerate(node.next_functions):
        if following is None:
            continue
        is_leaf = type(following) is _Accumulator
        slots = leaves.get(id(following.variable)) if is_leaf else edges.get((following, output))
        if slots:
            end.inputs += tuple([(place, slot) for slot in slots]) if len(slots) > 1 else ((place, slots[0]),)
        elif leaves and type(following).__name__ == _CAST and (casts := before.casts_by(following)):
            end.casts += tuple([(place, slot, dtype) for slot, dtype in casts])
        elif not is_leaf:
            leading_on.append(following)
    return end, leading_on


def _leads_to_an_input(nodes: Sequence[Node], before: InputEdges) -> bool:
    """Tell whether an input is reached from these nodes; the search gives up after `_MOST_SEARCHED` nodes."""
    waiting, visited = list(nodes), set(nodes)
    while waiting and len(visited) < _MOST_SEARCHED:
        for following, output in waiting.pop().next_functions:
            if following is not None and before.slots_of(following, output):
                return True
            if following is not None and following not in visited:
                visited.add(following)
                waiting.append(following)
    return False
