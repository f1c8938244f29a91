"""True gradients of a call's inputs and outputs, with nothing inserted into the graph.

Before a call the gradient edges of its inputs are taken; after it the graph is walked
from the outputs back to those edges. The nodes passed were made by this call. A hook on
each node that ends in an input's edge sees that input's gradient; several nodes that lead
to one input each give a part, and their sum is the gradient.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node

from torchparity.calls.gradients.sums import Contributions, End, Gradient, Watch, before_cast

Edge = tuple[Node, int]
_CAST = "ToCopyBackward0"
_Accumulator: Any = torch._C._functions.AccumulateGrad  # type: ignore[attr-defined]
_OF_TORCH = re.compile(r"[A-Z]\w*Backward\d+")
_MOST_SEARCHED = 10_000


class ForeignGraphError(Exception):
    """A call's inputs are reached through nodes that cannot be told to be its own.

    Nodes are numbered by thread, so what another thread made looks older than the call.
    """

    def __init__(self) -> None:
        super().__init__("part of its graph was made by another thread or before the call; its gradients are left out")


class InputEdges:
    """Where the gradients of a call's inputs will arrive.

    Made before a call that may change its inputs, and after any other: to ask a view of
    memory that was written for its node makes that node, and the engine would run it earlier
    than without us. `sequence` is from before the call: what has a larger number it made.
    """

    __slots__ = ("cast_to", "edges", "leaves", "sequence")

    def __init__(self, inputs: Sequence[torch.Tensor], sequence: int) -> None:
        self.sequence = sequence
        self.cast_to: dict[int, torch.dtype] = {}  # inputs that are cast, by autocast for several calls at once
        self.edges: dict[Edge, list[int]] = {}
        self.leaves: list[tuple[torch.Tensor, int]] = []
        for slot, tensor in enumerate(inputs):
            node = tensor.grad_fn
            if node is None:
                self.leaves.append((tensor, slot))
            else:
                self.edges.setdefault((node, tensor.output_nr), []).append(slot)

    def slots_of(self, node: Node, output: int) -> Sequence[int]:
        """Return the inputs whose gradient flows along this edge."""
        if type(node) is not _Accumulator:
            return self.edges.get((node, output), ())
        leaf_node: Any = node
        variable = leaf_node.variable
        return [slot for leaf, slot in self.leaves if leaf is variable]

    def slots_of_cast(self, node: Node) -> Sequence[int]:
        """Return the inputs that a node casts: autocast keeps the result, and several calls share the node."""
        if not self.leaves or type(node).__name__ != _CAST:
            return ()
        following, output = node.next_functions[0]
        slots = self.slots_of(following, output) if following is not None and type(following) is _Accumulator else ()
        self.cast_to.update({before_cast(slot): leaf.dtype for leaf, slot in self.leaves if slot in slots})
        return [before_cast(slot) for slot in slots]


def next_sequence() -> int:
    """Return the number that the next node of this thread gets."""
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]


def in_compiled_backward() -> bool:
    """Tell whether the backward of a compiled region is running: its calls are the compiler's, not the user's."""
    node = torch._C._current_autograd_node()
    return node is not None and node.name().startswith("CompiledFunction")


def watch(before: InputEdges, outputs: Sequence[torch.Tensor], taker: Watch) -> list[Any]:
    """Hook the nodes a call made; return the handles of hooks on tensors that outlive the graph.

    Raises `ForeignGraphError` before it hooks anything.
    """
    roots: dict[Node, list[tuple[int, int]]] = {}  # with the places at which gradients arrive, and their slots
    aliases: list[tuple[Node, int, int, Sequence[int]]] = []
    handles: list[Any] = []
    leaves: list[tuple[int, torch.Tensor]] = []
    for slot, tensor in enumerate(outputs):
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
    ends = _walk(roots, before)
    for slot, tensor in leaves:
        handles.append(_watch_leaf(tensor, slot, before, taker))
    for node, place, slot, aliased in aliases:
        node.register_prehook(_Arriving([(place, slot)], aliased, taker))
    _watch_nodes(roots, ends, taker, before.cast_to)
    return handles


def watch_mutated(before: InputEdges, mutated: torch.Tensor, taker: Watch) -> None:
    """Hook the nodes of a call that returns nothing and changes its first argument, such as `x[0] = y`."""
    if mutated.grad_fn is not None:
        _watch_nodes({}, _walk([mutated.grad_fn], before), taker, before.cast_to)


def _watch_nodes(
    roots: dict[Node, list[tuple[int, int]]], ends: Sequence[End], taker: Watch, cast_to: dict[int, torch.dtype]
) -> None:
    contributions = Contributions(ends, taker, cast_to)
    watched: set[Node] = set()
    for node, found in ends:
        arriving = roots.get(node)
        if arriving is None or not _leaves_gradients_alone(type(node)):
            arriving = []
        else:
            watched.add(node)
        node.register_hook(_Passing(found, arriving, contributions, taker))
    for node, arriving in roots.items():
        if node not in watched:
            node.register_prehook(_Arriving(arriving, (), taker))


@cache
def _leaves_gradients_alone(kind: type[Node]) -> bool:
    """Tell whether nodes of a kind change no gradient they are given: torch's own do not, a user's may."""
    return _OF_TORCH.fullmatch(kind.__name__) is not None and not issubclass(kind, BackwardCFunction)


class _Arriving:
    """Sees what flows in at the outputs of a call before their node runs."""

    __slots__ = ("_aliased", "_places", "_taker")

    def __init__(self, places: Sequence[tuple[int, int]], aliased: Sequence[int], taker: Watch) -> None:
        self._places, self._aliased, self._taker = places, aliased, taker

    def __call__(self, gradients: Sequence[Gradient | None]) -> None:
        self._taker.run(self._take, gradients)

    def _take(self, gradients: Sequence[Gradient | None]) -> None:
        for place, slot in self._places:
            gradient = gradients[place]
            if gradient is not None:
                self._taker.take_output(slot, gradient)
                for alias in self._aliased:  # the call returned its input: the gradient passes unchanged
                    self._taker.take_input(alias, gradient)
        self._taker.flush()


class _Passing:
    """Sees what a node computed for the inputs of a call and, where that is the same node, what it computed it from."""

    __slots__ = ("_arriving", "_contributions", "_found", "_taker")

    def __init__(
        self,
        found: Sequence[tuple[int, int]],
        arriving: Sequence[tuple[int, int]],
        contributions: Contributions,
        taker: Watch,
    ) -> None:
        self._found, self._arriving, self._contributions, self._taker = found, arriving, contributions, taker

    def __call__(self, inputs: Sequence[Gradient | None], outputs: Sequence[Gradient | None]) -> None:
        self._taker.run(self._take, inputs, outputs)

    def _take(self, inputs: Sequence[Gradient | None], outputs: Sequence[Gradient | None]) -> None:
        for place, slot in self._arriving:
            gradient = outputs[place]
            if gradient is not None:
                self._taker.take_output(slot, gradient)
        for place, slot in self._found:
            self._contributions.add(slot, inputs[place])
        self._taker.flush()


def _watch_leaf(tensor: torch.Tensor, slot: int, before: InputEdges, taker: Watch) -> Any:
    """A call that returned a leaf as it was: the gradient of output and input is the leaf's."""
    aliased = [known for leaf, known in before.leaves if leaf is tensor]
    arriving = _Arriving([(0, slot)], aliased, taker)
    return tensor.register_hook(lambda gradient: arriving((gradient,)))  # type: ignore[no-untyped-call]


def _walk(roots: Iterable[Node], before: InputEdges) -> list[End]:
    """Visit the nodes made since `before`; return those that end in an input's edge, with places and slots."""
    ends: list[End] = []
    waiting = list(roots)
    seen, older = set(waiting), list[Node]()
    while waiting:
        node = waiting.pop()
        if node._sequence_nr() < before.sequence:
            # What is older than the call was not made by it: a tensor it closed over.
            older.append(node)
            continue
        found: list[tuple[int, int]] = []
        for place, (following, output) in enumerate(node.next_functions):
            if following is None:
                continue
            slots = before.slots_of(following, output) or before.slots_of_cast(following)
            if slots:
                found += [(place, slot) for slot in slots]
            elif type(following) is not _Accumulator and following not in seen:
                seen.add(following)
                waiting.append(following)
        if found:
            ends.append((node, found))
    if older and _leads_to_an_input(older, before):
        raise ForeignGraphError
    return ends


def _leads_to_an_input(nodes: Sequence[Node], before: InputEdges) -> bool:
    waiting, seen = list(nodes), set(nodes)
    while waiting and len(seen) < _MOST_SEARCHED:
        for following, output in waiting.pop().next_functions:
            if following is not None and before.slots_of(following, output):
                return True
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return False
