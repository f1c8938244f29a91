"""Which nodes of autograd's graph a call made, and which of them lead to its inputs.

Before a call the gradient edges of its inputs are taken; after it the graph is walked
from the outputs back to those edges. The nodes passed were made by this call. What flows
out of each node that ends in an input's edge is that input's gradient; where several
nodes lead to one input each gives a part, and their sum is the gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
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


class End(msgspec.Struct, eq=False):
    """A node that ends in edges of inputs; a place is one of the node's results.

    Autocast casts a leaf once for several calls, which share the node of the cast. What a call gives
    to that node, one of the `casts`, is cast back to the leaf's dtype, and is then a part of its gradient.
    """

    node: Node
    inputs: list[tuple[int, int]]  # places, and the slots of the inputs whose gradients they are
    casts: list[tuple[int, int, torch.dtype]]  # places, slots and dtypes of the inputs


class Ends(msgspec.Struct, eq=False):
    """All ends of one call; sums are needed where an input's gradient has several parts, or is cast."""

    ends: list[End]
    needs_sums: bool


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
        self.leaves: dict[int, list[int]] = {}  # by identity: the call holds the tensors
        for slot, tensor in enumerate(tensors):
            if tensor.requires_grad:
                node = tensor.grad_fn
                if node is None:
                    self.leaves.setdefault(id(tensor), []).append(slot)
                else:
                    self.edges.setdefault((node, tensor.output_nr), []).append(slot)

    def slots_of(self, node: Any, output: int) -> Sequence[int]:
        """Return the inputs whose gradient flows along this edge."""
        if type(node) is _Accumulator:
            return self.leaves.get(id(node.variable), ())
        return self.edges.get((node, output), ())

    def slots_of_cast(self, node: Node) -> tuple[Sequence[int], torch.dtype | None]:
        """Return the leaves that a node casts, and their dtype."""
        following: Any = node.next_functions[0][0]
        if type(following) is not _Accumulator:
            return (), None
        return self.leaves.get(id(following.variable), ()), following.variable.dtype


def in_compiled_backward() -> bool:
    """Tell whether the backward of a compiled region is running: its calls are the compiler's, not the user's."""
    node = torch._C._current_autograd_node()
    return node is not None and node.name().startswith("CompiledFunction")


def ends_of(roots: Iterable[Node], before: InputEdges) -> Ends:
    """Visit the nodes made since `before` was; return those that end in an input's edge.

    Raises `ForeignGraphError` where an input is reached through nodes that are not the call's.
    """
    ends: list[End] = []
    reached: set[int] = set()
    needs_sums = False
    waiting = list(roots)
    visited, older = set(waiting), list[Node]()
    leaves, edges = before.leaves, before.edges
    while waiting:
        node = waiting.pop()
        if node._sequence_nr() < before.sequence:
            # What is older than the call was not made by it: a tensor it closed over.
            older.append(node)
            continue
        end = End(node, [], [])
        following: Any
        for place, (following, output) in enumerate(node.next_functions):
            if following is None:
                continue
            is_leaf = type(following) is _Accumulator
            slots = leaves.get(id(following.variable)) if is_leaf else edges.get((following, output))
            if slots:
                end.inputs += [(place, slot) for slot in slots] if len(slots) > 1 else ((place, slots[0]),)
                needs_sums = needs_sums or not reached.isdisjoint(slots)
                reached.update(slots)
                continue
            if leaves and type(following).__name__ == _CAST:
                slots, dtype = before.slots_of_cast(following)  # type: ignore[assignment]
                if slots and dtype is not None:
                    end.casts += [(place, slot, dtype) for slot in slots]
                    needs_sums = True
                    continue
            if not is_leaf and following not in visited:
                visited.add(following)
                waiting.append(following)
        if end.inputs or end.casts:
            ends.append(end)
    if older and _leads_to_an_input(older, before):
        raise ForeignGraphError
    return Ends(ends, needs_sums)


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
