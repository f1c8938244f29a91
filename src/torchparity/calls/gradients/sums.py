"""Adding up what several nodes of a call give to one input's gradient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import torch
from torch.autograd.graph import Node

Whole = list[tuple[int, torch.Tensor]]  # gradients that are complete, by the slot of their input


class End(msgspec.Struct, eq=False, gc=False):
    """A node that ends in edges of inputs; a place is one of the node's results.

    Autocast casts a leaf once for several calls, which share the node of the cast. What a call gives
    to that node, one of the `casts`, is cast back to the leaf's dtype, and is then a part of its gradient.
    """

    node: Node
    inputs: tuple[tuple[int, int], ...] = ()  # places, and the slots of the inputs whose gradients they are
    casts: tuple[tuple[int, int, torch.dtype], ...] = ()  # places, slots and dtypes of the inputs


class Target(NamedTuple):
    """The owner of a part: an input, or the cast of an input whose dtype is `cast_to`."""

    slot: int
    cast_to: torch.dtype | None = None


class GradientSums:
    """Collects the parts of each input's gradient within one backward pass.

    `at_end_of_pass` is given what is complete only then: of several nodes that lead to an
    input some may not run, where nobody used their output.
    """

    __slots__ = ("_at_end_of_pass", "_expected", "_nodes", "_parts")

    def __init__(self, ends: Sequence[End], at_end_of_pass: Callable[[Callable[[], Whole]], None]) -> None:
        self._at_end_of_pass = at_end_of_pass
        self._expected: Counter[Target] = Counter()
        self._nodes: Counter[Target] = Counter()
        self._parts: dict[tuple[Target, int], list[torch.Tensor | None]] = {}
        for end in ends:
            targets = [Target(slot) for _, slot in end.inputs] + [Target(slot, dtype) for _, slot, dtype in end.casts]
            self._expected.update(targets)
            self._nodes.update(set(targets))
        for target in list(self._expected):
            if target.cast_to is not None:  # the cast is one more node that leads to the input
                self._expected[Target(target.slot)] += 1
                self._nodes[Target(target.slot)] += 1

    def add(self, slot: int, cast_to: torch.dtype | None, part: torch.Tensor | None) -> Whole:
        """Add a part of an input's gradient, or of that of its cast; return the gradients that it makes complete."""
        target = Target(slot, cast_to)
        expected = self._expected[target]
        if expected == 1:
            return self._complete(target, part)
        key = (target, torch._C._current_graph_task_id())
        parts = self._parts.get(key)
        if parts is None:
            parts = self._parts[key] = []
            if self._nodes[target] > 1:
                self._at_end_of_pass(lambda: self._settle(key))
        parts.append(part if part is None else part.detach())
        return self._add_up(key) if len(parts) == expected else []

    def _settle(self, key: tuple[Target, int]) -> Whole:
        """Return what has come of a gradient although not every node that leads to it ran."""
        target, graph_task = key
        whole: Whole = []
        for other in list(self._parts):
            is_cast_of_it = target.cast_to is None and other[0].cast_to is not None and other[0].slot == target.slot
            if is_cast_of_it and other[1] == graph_task:
                whole += self._add_up(other)
        if key in self._parts:
            whole += self._add_up(key)
        return whole

    def _add_up(self, key: tuple[Target, int]) -> Whole:
        total: torch.Tensor | None = None
        for part in self._parts.pop(key):
            if part is not None:
                total = part if total is None else total + part
        return self._complete(key[0], total)

    def _complete(self, target: Target, gradient: torch.Tensor | None) -> Whole:
        if target.cast_to is not None:
            return self.add(target.slot, None, None if gradient is None else _cast(gradient, target.cast_to))
        return [] if gradient is None else [(target.slot, gradient)]


def _cast(gradient: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    plain = gradient.detach()
    return (plain.real if plain.is_complex() and not dtype.is_complex else plain).to(dtype)


def at_end_of_backward_pass(work: Callable[[], None]) -> None:
    """Call `work` when the backward pass that is running has ended."""
    engine: Any = torch.autograd.Variable._execution_engine
    engine.queue_callback(work)
