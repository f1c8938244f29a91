"""Adding up what several nodes of a call give to one input's gradient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchparity.calls.gradients.edges import End, Target

Whole = list[tuple[int, torch.Tensor]]  # gradients that are complete, by the slot of their input


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
            self._expected.update(target for _, target in end.targets)
            self._nodes.update({target for _, target in end.targets})
        for target in list(self._expected):
            if target.cast_to is not None:  # the cast is one more node that leads to the input
                self._expected[Target(target.slot)] += 1
                self._nodes[Target(target.slot)] += 1

    @staticmethod
    def are_needed(ends: Sequence[End]) -> bool:
        """Tell whether any input's gradient has several parts, or is cast."""
        slots = [target.slot for end in ends for _, target in end.targets]
        return len(set(slots)) < len(slots) or any(target.cast_to for end in ends for _, target in end.targets)

    def add(self, target: Target, part: torch.Tensor | None) -> Whole:
        """Add a part; return the gradients that it makes complete."""
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
        if target.cast_to is None:
            casts = [other for other in self._parts if other[0].slot == target.slot and other[0].cast_to is not None]
            for other in casts:
                if other[1] == graph_task:
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
            return self.add(Target(target.slot), None if gradient is None else _cast(gradient, target.cast_to))
        return [] if gradient is None else [(target.slot, gradient)]


def _cast(gradient: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    plain = gradient.detach()
    return (plain.real if plain.is_complex() and not dtype.is_complex else plain).to(dtype)


def at_end_of_backward_pass(work: Callable[[], None]) -> None:
    """Call `work` when the backward pass that is running has ended."""
    engine: Any = torch.autograd.Variable._execution_engine
    engine.queue_callback(work)
