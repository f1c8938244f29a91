"""Which nodes of autograd's graph a call made, and which of them lead to its inputs.

Before a call the gradient edges of its inputs are taken; after it the graph is walked
from the outputs back to those edges. The nodes passed were made by this call. What flows
out of each node that ends in an input's edge is that input's gradient; where several
nodes lead to one input each gives a part, and their sum is the gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import Node

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


class Target(NamedTuple):
    """Where what flows along an edge belongs: to an input, or to the cast of an input.

    Autocast casts a leaf once for several calls, which share the node of the cast. What a call gives
    to that node is cast back to `cast_to`, and is then a part of the input's gradient.
    """

    slot: int
    cast_to: torch.dtype | None = None


class End(NamedTuple):
    """A node that ends in edges of inputs: at which places, and whose."""

    node: Node
    targets: list[tuple[int, Target]]


class InputEdges:
    """Where the gradients of a call's inputs will arrive; a slot is an index into the call's tensors.

    Made before a call that may change its inputs, and after any other: to ask a view of
    memory that was written for its node makes that node, and the engine would run it earlier
    than without us. `sequence` is from before the call: what has a larger number it made.
    """

    __slots__ = ("edges", "leaves", "sequence")

    def __init__(self, tensors: Sequence[torch.Tensor], sequence: int) -> None:
        self.sequence = sequence
        self.edges: dict[Edge, list[int]] = {}
        self.leaves: dict[int, list[tuple[int, torch.Tensor]]] = {}
        for slot, tensor in enumerate(tensors):
            if not tensor.requires_grad:
                continue
            node = tensor.grad_fn
            if node is None:
                self.leaves.setdefault(id(tensor), []).append((slot, tensor))
            else:
                self.edges.setdefault((node, tensor.output_nr), []).append(slot)

    def slots_of(self, node: Node, output: int) -> Sequence[int]:
        """Return the inputs whose gradient flows along this edge."""
        if type(node) is not _Accumulator:
            return self.edges.get((node, output), ())
        leaf_node: Any = node
        return self.slots_of_leaf(leaf_node.variable)

    def slots_of_leaf(self, leaf: torch.Tensor) -> Sequence[int]:
        return [slot for slot, _ in self.leaves.get(id(leaf), ())]

    def targets(self, node: Node, output: int) -> Sequence[Target]:
        """Return what the gradient along this edge belongs to; nothing where it leads on into the graph."""
        slots = self.slots_of(node, output)
        if slots:
            return [Target(slot) for slot in slots]
        if not self.leaves or type(node).__name__ != _CAST:
            return ()
        following, place = node.next_functions[0]
        if following is None or type(following) is not _Accumulator:
            return ()
        leaf_node: Any = following
        return [Target(slot, leaf_node.variable.dtype) for slot in self.slots_of(following, place)]


def next_sequence() -> int:
    """Return the number that the next node of this thread gets."""
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]


def in_compiled_backward() -> bool:
    """Tell whether the backward of a compiled region is running: its calls are the compiler's, not the user's."""
    node = torch._C._current_autograd_node()
    return node is not None and node.name().startswith("CompiledFunction")


def ends_of(roots: Iterable[Node], before: InputEdges) -> list[End]:
    """Visit the nodes made since `before` was; return those that end in an input's edge.

    Raises `ForeignGraphError` where an input is reached through nodes that are not the call's.
    """
    ends: list[End] = []
    waiting = list(roots)
    visited, older = set(waiting), list[Node]()
    while waiting:
        node = waiting.pop()
        if node._sequence_nr() < before.sequence:
            # What is older than the call was not made by it: a tensor it closed over.
            older.append(node)
            continue
        targets: list[tuple[int, Target]] = []
        for place, (following, output) in enumerate(node.next_functions):
            if following is None:
                continue
            reached = before.targets(following, output)
            if reached:
                targets += [(place, target) for target in reached]
            elif type(following) is not _Accumulator and following not in visited:
                visited.add(following)
                waiting.append(following)
        if targets:
            ends.append(End(node, targets))
    if older and _leads_to_an_input(older, before):
        raise ForeignGraphError
    return ends


def _leads_to_an_input(nodes: Sequence[Node], before: InputEdges) -> bool:
    waiting, visited = list(nodes), set(nodes)
    while waiting and len(visited) < _MOST_SEARCHED:
        for following, output in waiting.pop().next_functions:
            if following is not None and before.slots_of(following, output):
                return True
            if following is not None and following not in visited:
                visited.add(following)
                waiting.append(following)
    return False
