"""True gradients of a call's inputs and outputs, with nothing inserted into the graph.

Before a call the gradient edges of its inputs are taken; after it the graph is walked
from the outputs back to those edges. The nodes passed were made by this call. A hook on
each node that ends in an input's edge sees that input's gradient; several nodes that lead
to one input each give a part, and their sum is the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.graph import Node

Gradient = torch.Tensor
Taker = Callable[[int, Gradient], None]
Edge = tuple[Node, int]
_MOST_SEARCHED = 10_000


class ForeignGraphError(Exception):
    """A call's inputs are reached through nodes that cannot be told to be its own.

    Nodes are numbered by thread, so what another thread made looks older than the call.
    """

    def __init__(self) -> None:
        super().__init__("part of its graph was made by another thread or before the call; its gradients are left out")


class InputEdges:
    """Where the gradients of a call's inputs will arrive; made before the call, which may change its inputs."""

    __slots__ = ("edges", "leaves", "sequence")

    def __init__(self, inputs: Sequence[tuple[int, torch.Tensor]]) -> None:
        self.sequence = _next_sequence()
        self.edges: dict[Edge, list[int]] = {}
        self.leaves: list[tuple[torch.Tensor, int]] = []
        for slot, tensor in inputs:
            node = tensor.grad_fn
            if node is None:
                self.leaves.append((tensor, slot))
            else:
                self.edges.setdefault((node, tensor.output_nr), []).append(slot)

    def slots_of(self, node: Node, output: int) -> list[int]:
        """Return the inputs whose gradient flows along this edge."""
        found = self.edges.get((node, output))
        if found is not None:
            return found
        variable = getattr(node, "variable", None)  # an accumulator belongs to one leaf
        if variable is None:
            return []
        return [slot for leaf, slot in self.leaves if leaf is variable]


def _next_sequence() -> int:
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]


def in_compiled_backward() -> bool:
    """Tell whether the backward of a compiled region is running: its calls are the compiler's, not the user's."""
    node = torch._C._current_autograd_node()
    return node is not None and node.name().startswith("CompiledFunction")


class Contributions:
    """Adds up the parts of each input's gradient within one backward pass and hands on the whole."""

    __slots__ = ("_parts", "_take", "_wanted")

    def __init__(self, take: Taker) -> None:
        self._wanted: dict[int, int] = {}
        self._parts: dict[tuple[int, int], list[Gradient | None]] = {}
        self._take = take

    def expect(self, slot: int) -> None:
        self._wanted[slot] = self._wanted.get(slot, 0) + 1

    def add(self, slot: int, gradient: Gradient | None) -> None:
        wanted = self._wanted[slot]
        if wanted == 1:
            if gradient is not None:
                self._take(slot, gradient)
            return
        key = (slot, torch._C._current_graph_task_id())
        parts = self._parts.setdefault(key, [])
        parts.append(gradient if gradient is None else gradient.detach())
        if len(parts) == wanted:
            del self._parts[key]
            known = [part for part in parts if part is not None]
            if known:
                total = known[0]
                for part in known[1:]:
                    total = total + part
                self._take(slot, total)


def watch(
    before: InputEdges,
    outputs: Sequence[tuple[int, torch.Tensor]],
    *,
    take_input: Taker,
    take_output: Taker,
    guard: Callable[[Callable[[], None]], None],
) -> list[Any]:
    """Hook the nodes a call made; return the handles of hooks on tensors that outlive the graph.

    `take_output(slot, gradient)` gets what flows in at an output, `take_input` what flows
    out at an input. `guard` runs each of them: nothing of ours may reach the engine.
    Raises `ForeignGraphError` before it hooks anything.
    """
    nodes = [(tensor.grad_fn, tensor.output_nr) for _, tensor in outputs]
    roots = [node for node, output in nodes if node is not None and not before.slots_of(node, output)]
    ends = _walk(roots, before)
    handles: list[Any] = []
    for slot, tensor in outputs:
        node = tensor.grad_fn
        if node is None:
            handles.append(_watch_leaf(tensor, slot, before, take_input, take_output, guard))
        else:
            aliased = before.slots_of(node, tensor.output_nr)
            _watch_output(node, tensor.output_nr, slot, aliased, take_input, take_output, guard)
    _watch_nodes(ends, Contributions(take_input), guard)
    return handles


def watch_mutated(
    before: InputEdges,
    mutated: torch.Tensor,
    *,
    take_input: Taker,
    guard: Callable[[Callable[[], None]], None],
) -> None:
    """Hook the nodes of a call that returns nothing and changes its first argument, such as `x[0] = y`."""
    if mutated.grad_fn is not None:
        _watch_nodes(_walk([mutated.grad_fn], before), Contributions(take_input), guard)


def _watch_output(
    node: Node,
    output: int,
    slot: int,
    aliased: list[int],
    take_input: Taker,
    take_output: Taker,
    guard: Callable[[Callable[[], None]], None],
) -> None:
    def arrived(gradients: Sequence[Gradient | None]) -> None:
        gradient = gradients[output]
        if gradient is None:
            return
        guard(lambda: take_output(slot, gradient))
        for alias in aliased:  # the call returned its input: the gradient passes unchanged
            guard(lambda alias=alias: take_input(alias, gradient))  # type: ignore[misc]

    node.register_prehook(arrived)


def _watch_leaf(
    tensor: torch.Tensor,
    slot: int,
    before: InputEdges,
    take_input: Taker,
    take_output: Taker,
    guard: Callable[[Callable[[], None]], None],
) -> Any:
    """A call that returned a leaf as it was: the gradient of output and input is the leaf's."""
    aliased = [known for leaf, known in before.leaves if leaf is tensor]

    def arrived(gradient: Gradient) -> None:
        guard(lambda: take_output(slot, gradient))
        for alias in aliased:
            guard(lambda alias=alias: take_input(alias, gradient))  # type: ignore[misc]

    return tensor.register_hook(arrived)  # type: ignore[no-untyped-call]


def _walk(roots: Sequence[Node], before: InputEdges) -> list[tuple[Node, list[tuple[int, int]]]]:
    """Visit the nodes made since `before`; return those that end in an input's edge, with places and slots."""
    ends: list[tuple[Node, list[tuple[int, int]]]] = []
    waiting, seen, older = list(roots), set(roots), set[Node]()
    while waiting:
        node = waiting.pop()
        if node._sequence_nr() < before.sequence:
            # What is older than the call was not made by it: a tensor it closed over.
            older.add(node)
            continue
        found: list[tuple[int, int]] = []
        for place, (following, output) in enumerate(node.next_functions):
            if following is None:
                continue
            slots = before.slots_of(following, output)
            found += [(place, slot) for slot in slots]
            if not slots and following not in seen and following._sequence_nr() < _ACCUMULATOR:
                seen.add(following)
                waiting.append(following)
        if found:
            ends.append((node, found))
    if older and _leads_to_an_input(older, before):
        raise ForeignGraphError
    return ends


def _leads_to_an_input(nodes: set[Node], before: InputEdges) -> bool:
    waiting, seen = list(nodes), set(nodes)
    while waiting and len(seen) < _MOST_SEARCHED:
        for following, output in waiting.pop().next_functions:
            if following is not None and before.slots_of(following, output):
                return True
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return False


_ACCUMULATOR = 2**64 - 1  # the sequence number of nodes that accumulate into leaves


def _watch_nodes(
    ends: Sequence[tuple[Node, list[tuple[int, int]]]],
    contributions: Contributions,
    guard: Callable[[Callable[[], None]], None],
) -> None:
    for node, found in ends:
        for _, slot in found:
            contributions.expect(slot)
        _watch_node(node, found, contributions, guard)


def _watch_node(
    node: Node,
    found: Sequence[tuple[int, int]],
    contributions: Contributions,
    guard: Callable[[Callable[[], None]], None],
) -> None:
    def passed(inputs: Sequence[Gradient | None], outputs: Any) -> None:
        def take() -> None:
            for place, slot in found:
                contributions.add(slot, inputs[place])

        guard(take)

    node.register_hook(passed)
