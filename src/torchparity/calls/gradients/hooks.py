"""Hooks on nodes of autograd's graph, which see the gradients of a call as they flow."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import msgspec
import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node

from torchparity.calls.gradients.sums import GradientSums, Whole, at_end_of_backward_pass
from torchparity.calls.guard.boundary import Boundary
from torchparity.calls.guard.endings import EndingBoundary

Gradient = torch.Tensor
Places = Sequence[tuple[int, int]]  # places at which gradients pass a node, and the slots of their tensors
_OF_TORCH = re.compile(r"[A-Z]\w*Backward\d+")


class Teller(Protocol):
    """The dispatcher, as hooks know it: it is told of the gradients of calls."""

    def tell_gradients(self, call: Any, received: Whole, returned: Whole) -> None: ...


class Hooks(msgspec.Struct, eq=False, gc=False):
    """A call and who is told of its gradients, shared by all its hooks."""

    name: str
    boundary: Boundary | EndingBoundary
    call: Any
    teller: Teller

    def tell(self, received: Whole, returned: Whole) -> None:
        self.teller.tell_gradients(self.call, received, returned)

    def at_end_of_pass(self, settle: Callable[[], Whole]) -> None:
        """Tell at the end of the backward pass what `settle` returns then."""
        at_end_of_backward_pass(lambda: self.boundary.run(self.name, self._tell_settled, settle))

    def _tell_settled(self, settle: Callable[[], Whole]) -> None:
        returned = settle()
        if returned:
            self.tell([], returned)


class Arriving(msgspec.Struct, eq=False, gc=False):
    """Sees what flows in at the outputs of a call before their node runs."""

    places: Places
    aliased: Sequence[int]  # inputs that the call returned as they were
    hooks: Hooks

    def __call__(self, gradients: Sequence[Gradient | None]) -> None:
        self.hooks.boundary.run(self.hooks.name, self._tell, gradients)

    def _tell(self, gradients: Sequence[Gradient | None]) -> None:
        received = _present(gradients, self.places)
        returned = [(alias, gradient) for _, gradient in received for alias in self.aliased]
        if received:
            self.hooks.tell(received, returned)


class Passing(msgspec.Struct, eq=False, gc=False):
    """Sees what a node computed for the inputs of a call and, where that is the same node, what it computed it from."""

    inputs: Places
    arriving: Places
    hooks: Hooks

    def __call__(self, inputs: Sequence[Gradient | None], outputs: Sequence[Gradient | None]) -> None:
        self.hooks.boundary.run(self.hooks.name, self._tell, inputs, outputs)

    def _tell(self, inputs: Sequence[Gradient | None], outputs: Sequence[Gradient | None]) -> None:
        received, returned = _present(outputs, self.arriving), _present(inputs, self.inputs)
        if received or returned:
            self.hooks.tell(received, returned)


class Summing(msgspec.Struct, eq=False, gc=False):
    """Sees what a node computed where it may be a part of an input's gradient only.

    It must not hold the node, which holds it: the garbage collector does not look here.
    """

    inputs: Places
    casts: Sequence[tuple[int, int, torch.dtype]]
    arriving: Places
    sums: GradientSums
    hooks: Hooks

    def __call__(self, inputs: Sequence[Gradient | None], outputs: Sequence[Gradient | None]) -> None:
        self.hooks.boundary.run(self.hooks.name, self._tell, inputs, outputs)

    def _tell(self, inputs: Sequence[Gradient | None], outputs: Sequence[Gradient | None]) -> None:
        received = _present(outputs, self.arriving)
        returned: Whole = []
        for place, slot in self.inputs:
            returned += self.sums.add(slot, None, inputs[place])
        for place, slot, dtype in self.casts:
            returned += self.sums.add(slot, dtype, inputs[place])
        if received or returned:
            self.hooks.tell(received, returned)


def _present(gradients: Sequence[Gradient | None], places: Places) -> Whole:
    return [(slot, gradient) for place, slot in places if (gradient := gradients[place]) is not None]


@cache
def leaves_gradients_alone(kind: type[Node]) -> bool:
    """Tell whether nodes of a kind change no gradient they are given: torch's own do not, a user's may."""
    return _OF_TORCH.fullmatch(kind.__name__) is not None and not issubclass(kind, BackwardCFunction)
