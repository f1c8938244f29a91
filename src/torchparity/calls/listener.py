"""The contract of a listener: what a dispatcher tells it of every call, and what it may answer.

class Counting(Listener):
    calls = 0

    def before(self, call):
        self.calls += 1

with listening(counting := Counting()):
    torch.ones(2).exp()
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from functools import cached_property
from typing import Any, ClassVar

import torch

from torchparity.calls.call import Call
from torchparity.calls.guard.boundary import Failures
from torchparity.ops import Kind, Op

Gradients = Sequence[tuple[int, torch.Tensor]]  # with the index of the tensor each belongs to


class Interest(Enum):
    """The interest of a listener in a function's calls; asked once per function."""

    NOTHING = auto()
    WRITES = auto()  # the in-place writes, except inside an optimizer, of whose end it is told
    EFFECTS = auto()  # every write and every exposure of memory
    CALLS = auto()  # the calls themselves


class Listener:
    """Told of the calls of a dispatcher. Override what you need; what you raise is counted, and nobody else sees it.

    Torch functions that a listener calls are not seen, by itself or by others. A listener
    must be done with a call's tensors when it returns: the next call may overwrite them.
    """

    replaces_outputs: ClassVar[bool] = False
    ends_training: bool = False
    needs_parents: ClassVar[bool] = True  # without it calls may lack parents, and calls of inner modules are not told
    work: ClassVar[str] = "record"  # what it does with a call, for the sentence that is logged when it fails

    @cached_property
    def failures(self) -> Failures:
        """The failures of this listener."""
        return Failures(self.work)

    def interest(self, op: Op) -> Interest:
        """Say what to be told of the calls of a function.

        By default of functions that compute, collectives and functions of the user's; of views, attributes and
        modules only where you say so; calls of `backward` are never told.
        """
        is_call = op.kind in (Kind.COMPUTES, Kind.COLLECTIVE, Kind.CUSTOM)
        return Interest.CALLS if is_call else Interest.NOTHING

    def before(self, call: Call) -> Any:
        """A call begins. What is returned comes back as `state`; None: do not tell me how this call ends."""
        return True

    def replacement(self, call: Call, state: Any, output: Any) -> Any:
        """Return what the user gets instead of `output`; asked only where `replaces_outputs` is set."""
        return output

    def after(self, call: Call, state: Any, output: Any) -> None:
        """A call returned; `output` is what the user gets, replacements included."""

    def ending(self) -> Exception | None:
        """Return an error to end the training with, once: the user gets it at the call that was just told.

        Asked after calls of functions and after gradients, where `ends_training` was set when the dispatcher was made.
        """
        return None

    def raised(self, call: Call, state: Any, error: BaseException) -> None:
        """A call raised."""

    def gradients(self, call: Call, state: Any, received: Gradients, returned: Gradients) -> None:
        """Gradients came, for a call whose `wants_gradients` was set: at its outputs, and those it gave its inputs."""

    def parameter_gradient(
        self, module: str, parameter: str, event: int, gradient: torch.Tensor | None, only_called: bool
    ) -> None:
        """A gradient was accumulated into a parameter of a module, the `event`th time in this step.

        With `only_called` it matters only where somebody was told of a call of the module.
        """

    def exposed(self, tensors: Sequence[torch.Tensor]) -> None:
        """Memory is handed out; from now on it may be written without a new `Tensor._version`."""

    def lent(self, tensors: Sequence[torch.Tensor]) -> None:
        """Memory is handed out to a transfer, and is exposed until it is `returned`."""
        self.exposed(tensors)

    def returned(self, tensors: Sequence[torch.Tensor]) -> None:
        """A transfer is done with memory that was lent to it."""

    def wrote(self, op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """A call that is not listened to wrote into its arguments."""

    def passed(self, op: Op, args: Sequence[Any], kwargs: dict[str, Any], output: Any) -> None:
        """A call that is not listened to, but whose effects are, returned; told where it may have made new memory."""

    def ran_unseen(self, *, only_backward: bool) -> None:
        """Calls were made that no interceptor sees: by autograd's engine alone, or inside a compiled region."""

    def wrote_unseen(self) -> None:
        """Any memory may have been written: by an optimizer's kernels, a CUDA graph, before the dispatcher listened."""
