"""One call of an API, a module, a collective or a user's function, as it passes through a dispatcher."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Any

import msgspec
import torch

from torchparity.calls.arguments import Flat
from torchparity.calls.gradients.edges import InputEdges
from torchparity.ops import Op


class Call(msgspec.Struct, eq=False):
    """A call from before it begins until its gradients have come.

    Hooks on autograd's graph keep the call, and must not keep tensors alive: `let_go` drops
    everything that is the user's when the listeners have seen the output. Names and forms stay.
    """

    op: Op
    name: str  # of its forward record
    step: int  # in which it began
    parents: Sequence[str]  # the modules around it and the optimizer, outermost first
    args: Sequence[Any]
    kwargs: dict[str, Any]
    frame: FrameType | None  # where it is called from; still running when the call ends
    module: torch.nn.Module | None = None
    module_name: str = ""  # which of the model's modules is called, "" for everything else
    is_recompute: bool = False
    in_backward: bool = False  # called by a backward, and no recomputation

    writes: bool = False  # it may change its arguments

    tensors: list[torch.Tensor] = []  # those among the arguments, once `inputs` was asked for
    args_form: list[Any] | None = None
    kwargs_form: Any = None
    output_form: list[Any] | None = None
    hearers: list[tuple[Any, Any]] = []  # listeners, with what their `before` returned

    began: float = 0.0
    spent_before: float = 0.0
    seconds: float = 0.0  # without what recording the calls inside it took

    wants_gradients: bool = False  # set by a listener in `before`
    sequence: int = 0  # of the first node of autograd's graph that the call makes
    edges: InputEdges | None = None  # taken before a call that may change its inputs
    _inputs: Flat | None = None
    _outputs: Flat | None = None
    _mutated: torch.Tensor | None = None
    _mutated_version: int = 0

    @property
    def parent(self) -> str | None:
        """The innermost module or optimizer around the call."""
        return self.parents[-1] if self.parents else None

    def inputs(self) -> Flat:
        """Return the tensors among the arguments; the first to ask walks them."""
        flat = self._inputs
        if flat is None:
            flat = self._inputs = Flat()
            self.args_form = flat.add_all(self.args)
            if self.kwargs:
                self.kwargs_form = flat.add(self.kwargs)
            self.tensors = flat.tensors
        return flat

    def outputs(self, output: Any) -> Flat:
        """Return the tensors among what the call returned."""
        flat = self._outputs
        if flat is None:
            flat = self._outputs = Flat()
            is_several = isinstance(output, (tuple, list)) and not isinstance(output, torch.Size)
            self.output_form = flat.add_all(output if is_several else (output,))
        return flat

    def expect_mutation(self) -> None:
        """Note the version of the first argument, before a call that may change it."""
        first = self.args[0] if self.args else None
        if not self.module_name and isinstance(first, torch.Tensor) and not first.is_inference():
            self._mutated, self._mutated_version = first, first._version

    def mutated(self) -> torch.Tensor | None:
        """Return the first argument if the call changed it and it has a gradient."""
        tensor = self._mutated
        has_changed = tensor is not None and tensor.requires_grad and tensor._version != self._mutated_version
        return tensor if has_changed else None

    def let_go(self) -> None:
        """Drop the user's objects."""
        self.args, self.kwargs, self.tensors = (), {}, []
        self.frame = self.module = self.edges = self._inputs = self._outputs = self._mutated = None
