"""One call of an API, a module, a collective or a user's function, as it passes through a dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import msgspec
import torch

from torchparity.calls.arguments import Flat
from torchparity.calls.gradients.graph import InputEdges
from torchparity.ops import Op


class Call(msgspec.Struct, eq=False, gc=False):
    """A call from before it begins until its gradients have come.

    Hooks on autograd's graph keep the call, and must not keep tensors alive: the dispatcher drops
    everything that is the user's when the listeners have seen the output. Names and forms stay.
    """

    op: Op
    name: str  # of its forward record
    step: int  # in which it began
    parents: Sequence[str]  # the modules around it and the optimizer, outermost first
    inputs: Flat  # its arguments; `inputs.walked()` has their tensors as one flat list
    frame: FrameType | None = None  # where it is called from; still running when the call ends
    function: Callable[..., Any] | None = None  # of a function, from when it runs until it has ended
    module: torch.nn.Module | None = None
    module_name: str = ""  # which of the model's modules is called, "" for everything else
    is_recompute: bool = False
    in_backward: bool = False  # called by a backward, and no recomputation
    writes: bool = False  # it may change its arguments

    outputs: Flat | None = None  # once it has returned
    listeners: Sequence[Any] = ()  # who hear of it
    states: tuple[Any, ...] = ()  # what the `before` of each returned, None where it failed

    began: float = 0.0
    spent_before: float = 0.0
    seconds: float = 0.0  # without what recording the calls inside it took

    wants_gradients: bool = False  # set by a listener in `before`
    sequence: int = 0  # of the first node of autograd's graph that the call makes
    edges: InputEdges | None = None  # taken before a call that may change its inputs
    first: torch.Tensor | None = None  # argument of a call that may change it
    first_version: int = 0

    @property
    def args(self) -> Sequence[Any]:
        return self.inputs.args

    @property
    def kwargs(self) -> dict[str, Any]:
        return self.inputs.kwargs

    @property
    def parent(self) -> str | None:
        """The innermost module or optimizer around the call."""
        return self.parents[-1] if self.parents else None

    def take_edges(self) -> None:
        """Note where the gradients of the inputs arrive, before a call that may change the inputs."""
        self.edges = InputEdges(self.inputs.walked().tensors, self.sequence)
        first = self.inputs.args[0] if self.inputs.args else None
        if not self.module_name and isinstance(first, torch.Tensor) and not first.is_inference():
            self.first, self.first_version = first, first._version

    def mutated(self) -> torch.Tensor | None:
        """Return the first argument if the call changed it in place and it has a gradient."""
        first = self.first
        has_changed = first is not None and first.requires_grad and first._version != self.first_version
        return first if has_changed else None
