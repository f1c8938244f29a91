"""The listener that perturbs: what all its kinds share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from torchparity.calls import Call, Interest, Listener, attempted, text_of
from torchparity.ops import Kind, Op
from torchparity.perturb.apis.unsuitable import UNWRITTEN, computes_nothing, reason_against_api
from torchparity.perturb.apis.writes import may_write
from torchparity.perturb.findings import DEVIATIONS, Table
from torchparity.perturb.memory_layout import copied
from torchparity.perturb.perturbations import Perturbation
from torchparity.perturb.rerunning import Autocasting, RandomState, run_again
from torchparity.perturb.selected_calls import SelectedCalls
from torchparity.perturb.subject import (
    CancelledError,
    Raised,
    Subject,
    call_tensors,
    has_plain_values,
    is_cast,
    subject_of,
    versions_of,
)
from torchparity.perturb.verdicts import Verdicts

_HAS_ALL_IT_SAVES = "_StopRecomputationError"  # a forward that is done again, by the perturbed call
_OF_ALL_PARAMETERS = ("Torch._foreach_", "Torch._fused_")


@dataclass
class Held:
    """A call that will be run again: its arguments as they were before it, and the random state."""

    subject: Subject
    random: RandomState
    autocasting: Autocasting
    versions: list[int]  # of the call's tensors

    def run_again(self, function: Callable[..., Any], tensors: Sequence[torch.Tensor], mode: Perturbation) -> Any:
        """Return what the call's function returns for other tensors, right after it returned."""
        return run_again(function, self.subject, tensors, mode, self.autocasting, self.random)


class Perturbing(Listener, ABC):
    """Runs the selected calls again; kinds of it say with what, and what becomes of the result."""

    work = "perturb"
    needs_parents = False
    table: Table | None = DEVIATIONS  # that this listener writes

    def __init__(self, calls: SelectedCalls, verdicts: Verdicts) -> None:
        self.calls, self.verdicts = calls, verdicts

    def open(self, folder: Path, rank: int) -> None:
        """Make the files that this listener writes, or raise where that cannot be."""
        self.verdicts.open(folder, rank)

    def end_step(self, step: int) -> None:
        """Judge what has come from a device."""
        self.verdicts.end_step()

    def close(self) -> None:
        """Judge what is still to come."""
        self.verdicts.settle()

    def take_back(self, step: int | None = None) -> None:
        """Remove what was written and counted of a step, or of all: it is of no training."""
        self.verdicts.take_back(step)
        self.calls.take_back(step)

    @abstractmethod
    def sentences(self) -> list[str]:
        """Return what came of it, for the end of the training."""

    def interest(self, op: Op) -> Interest:
        is_call = op.kind in (Kind.COMPUTES, Kind.COLLECTIVE, Kind.CUSTOM) and not computes_nothing(op.name)
        return Interest.CALLS if is_call and self.calls.may_take(op) else Interest.NOTHING

    def before(self, call: Call) -> Any:
        """Hold the arguments of a call that is to be perturbed; it may overwrite them."""
        if not self.wants(call):
            return None
        held = self.within(call.name, self._taken, call)
        if held is None:
            self.give_back(call)
        return held

    def _taken(self, call: Call) -> Held | None:
        """Return what is held of a call; None where there is a reason against it, which is noted."""
        tensors = call_tensors(call)
        reason = self.reason_against(call, tensors)
        if reason is not None:
            self.verdicts.cancel(call.name, reason)
        elif not tensors:
            self.verdicts.cannot_take(call.op.name, call.name, was_asked_for=self.calls.is_narrowed)
        else:
            return self._held(call, tensors)
        return None

    def raised(self, call: Call, state: Any, error: BaseException) -> None:
        """Let another call take the place of one that raises by itself."""
        self.give_back(call)

    def give_back(self, call: Call) -> None:
        """Let another call take the place of one that could not be perturbed."""
        self.calls.give_back(call)
        self.verdicts.give_back(call.op.name)

    def wants(self, call: Call) -> bool:
        """Tell whether a call is to be perturbed; a forward that is done again for its gradients was already."""
        is_taken = not call.is_recompute and self.calls.takes(call)
        return is_taken and self.verdicts.wants(call.op.name, call.name)

    def copied(self, tensor: torch.Tensor, *, is_written: bool) -> torch.Tensor:
        """Return what stands for a tensor of a call when the call is run again."""
        return copied(tensor.detach()) if is_written else tensor.detach()

    def within(self, name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return what `work(*arguments)` returns; None, and the reason in the log, where it is cancelled or raises."""
        done = attempted(work, *arguments)
        if isinstance(done, CancelledError):
            self.verdicts.cancel(name, str(done))
            return None
        if isinstance(done, Exception) and type(done).__name__ == _HAS_ALL_IT_SAVES:
            self.verdicts.begin(name)
            return None
        if isinstance(done, Exception):
            reason = " ".join(text_of(done).split())[:200]
            self.verdicts.cancel(name, f"the perturbed call raised {type(done).__name__}: {reason}")
            return None
        return done

    def reason_against(self, call: Call, tensors: Sequence[torch.Tensor]) -> str | None:
        """Return why a call is not perturbed, where that is known before it runs: holding it would cost for nothing."""
        if call.op.kind is Kind.COLLECTIVE:
            return "a collective cannot be run again by one rank"
        if call.op.leaves_unwritten:
            return UNWRITTEN
        if reason := reason_against_api(call.op.name):
            return reason
        if call.op.name.startswith(_OF_ALL_PARAMETERS) and not self.calls.is_narrowed:
            return "it works on all parameters at once; name it in 'list' to perturb it"
        return None

    def _held(self, call: Call, tensors: Sequence[torch.Tensor]) -> Held:
        is_written = may_write(call)
        subject = subject_of(call, tensors, lambda tensor: self.copied(tensor, is_written=is_written))
        return Held(subject, RandomState(call, tensors), Autocasting(tensors), versions_of(tensors))


def lacks_low_precision(raised: Raised, tensors: Sequence[torch.Tensor]) -> bool:
    """Tell whether none of a call's tensors is of a dtype that is raised, nor cast to one."""
    return bool(raised and tensors) and not any(each.dtype in raised for each in tensors) and not is_cast(tensors)


def check_draws_nothing(held: Held) -> None:
    """Raise where a call has drawn random numbers, and would draw others."""
    if held.random.has_changed():
        raise CancelledError("it draws random numbers")


def check_is_no_view(call: Call, results: Sequence[torch.Tensor]) -> None:
    """Raise where a call has computed nothing, as `x[0]`: its results show the memory of its tensors."""
    if call.writes or not results or not all(result._is_view() and has_plain_values(result) for result in results):
        return
    given = call_tensors(call)
    if all(share_memory([result], given) for result in results):
        raise CancelledError("it returns a view of its input")


def share_memory(results: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> bool:
    """Tell whether one of some results lies in the memory of what was given."""
    memory = {tensor.untyped_storage().data_ptr() for tensor in given if tensor.numel()}
    return any(tensor.untyped_storage().data_ptr() in memory for tensor in results if tensor.numel())


def has_written(call: Call, held: Held, output: Any) -> bool:
    """Tell whether a call wrote one of its tensors; some that return nothing write without a new version."""
    if not call.writes:
        return False
    return versions_of(call_tensors(call)) != held.versions or (call.op.writes_unversioned and output is None)
