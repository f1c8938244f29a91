"""Adding up what several nodes of a call give to one input's gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch.autograd.graph import Node

Gradient = torch.Tensor
End = tuple[Node, list[tuple[int, int]]]  # a node that ends in inputs' edges: at which places, and whose


def before_cast(slot: int) -> int:
    """Return the number under which what flows into an input's cast is added up, and the input's for that one."""
    return -1 - slot


class Watch(Protocol):
    """Who takes the gradients of one call: what flows in at its outputs, and out at its inputs.

    They are only valid until `flush`. `run` calls what hands them over, so that nothing of ours reaches the engine.
    """

    def take_input(self, slot: int, gradient: Gradient) -> None: ...

    def take_output(self, slot: int, gradient: Gradient) -> None: ...

    def flush(self) -> None: ...

    def run(self, work: Callable[..., None], *arguments: Any) -> None: ...


class Contributions:
    """Adds up the parts of each input's gradient within one backward pass and hands on the whole."""

    __slots__ = ("_cast_to", "_nodes", "_parts", "_taker", "_wanted")

    def __init__(self, ends: Sequence[End], taker: Watch, cast_to: dict[int, torch.dtype]) -> None:
        self._cast_to = cast_to
        self._wanted: dict[int, int] = {}
        self._nodes: dict[int, int] = {}  # that each input's gradient comes from
        self._parts: dict[tuple[int, int], list[Gradient | None]] = {}
        self._taker = taker
        for _, found in ends:
            for _, slot in found:
                self._wanted[slot] = self._wanted.get(slot, 0) + 1
            for slot in {slot for _, slot in found}:
                self._nodes[slot] = self._nodes.get(slot, 0) + 1
        for slot in list(self._wanted):
            if slot < 0:  # the cast is one more node that leads to the input
                whole = before_cast(slot)
                self._wanted[whole], self._nodes[whole] = self._wanted.get(whole, 0) + 1, self._nodes.get(whole, 0) + 1

    def add(self, slot: int, gradient: Gradient | None) -> None:
        wanted = self._wanted[slot]
        if wanted == 1:
            self._take(slot, gradient)
            return
        key = (slot, torch._C._current_graph_task_id())
        parts = self._parts.get(key)
        if parts is None:
            parts = self._parts[key] = []
            if self._nodes[slot] > 1:  # of which some may not run: nobody used that output
                _at_end_of_pass(lambda: self._taker.run(self._settle, key))
        parts.append(gradient if gradient is None else gradient.detach())
        if len(parts) == wanted:
            self._hand_on(key)

    def _settle(self, key: tuple[int, int]) -> None:
        earlier = (before_cast(key[0]), key[1])
        if earlier in self._parts and key[0] >= 0:
            self._hand_on(earlier)
        if key in self._parts:
            self._hand_on(key)
            self._taker.flush()

    def _hand_on(self, key: tuple[int, int]) -> None:
        total: Gradient | None = None
        for part in self._parts.pop(key):
            if part is not None:
                total = part if total is None else total + part
        self._take(key[0], total)

    def _take(self, slot: int, gradient: Gradient | None) -> None:
        if slot < 0:
            self.add(before_cast(slot), None if gradient is None else _cast(gradient, self._cast_to[slot]))
        elif gradient is not None:
            self._taker.take_input(slot, gradient)


def _cast(gradient: Gradient, dtype: torch.dtype) -> Gradient:
    plain = gradient.detach()
    return (plain.real if plain.is_complex() and not dtype.is_complex else plain).to(dtype)


def _at_end_of_pass(work: Callable[[], None]) -> None:
    engine: Any = torch.autograd.Variable._execution_engine
    engine.queue_callback(work)
