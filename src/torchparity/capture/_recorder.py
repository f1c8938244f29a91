"""One step in the making: numbers calls, keeps what they saw, and hands the records on when the step ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import msgspec
import torch

from torchparity.capture import _gradients
from torchparity.capture._apis import Api
from torchparity.capture._boundary import Boundary
from torchparity.capture._drafts import BackwardDraft, Draft, Observer, differentiable
from torchparity.capture._meter import Meter
from torchparity.capture._selection import Role, Selection
from torchparity.capture._stacks import StackBook
from torchparity.capture._storing import StoringMeter
from torchparity.records import Record, StackGroup
from torchparity.storage import SharedTensor


class Call(msgspec.Struct):
    """A call under way: its draft, and where the gradients of its inputs will arrive."""

    draft: Draft
    edges: _gradients.InputEdges | None = None
    slots: Any = None
    kwarg_slots: Any = None
    began: float = 0.0
    spent_before: float = 0.0
    parent: str | None = None
    mutated: torch.Tensor | None = None
    frame: Any = None  # where the call is; still running when the call ends


@dataclass
class FinishedStep:
    """What a step recorded, ready to be written."""

    records: list[tuple[Record, dict[str, SharedTensor]]]
    stacks: list[StackGroup]
    construct: dict[str, str | None]


@dataclass
class Recorder:
    """Collects drafts between two ends of a step; used from the training thread and from autograd's."""

    meter: Meter
    selection: Selection
    boundary: Boundary
    stacks: StackBook | None
    is_recording: bool = False

    def __post_init__(self) -> None:
        self.observer = Observer(self.meter)
        self._storing = Observer(StoringMeter(self.meter))
        self._local = threading.local()
        self._leaf_hooks: list[Any] = []
        self._numbers: dict[str, int] = {}
        self._drafts: list[Draft] = []
        self._construct: dict[str, str | None] = {}
        self._lock = threading.RLock()
        self._generation = 0

    @property
    def parents(self) -> list[str]:
        """The modules this thread is inside of, outermost first."""
        found: list[str] | None = getattr(self._local, "parents", None)
        if found is None:
            found = self._local.parents = []
        return found

    def number(self, counted: str) -> int:
        """Return how often something was called before in this step."""
        with self._lock:
            number = self._numbers.get(counted, 0)
            self._numbers[counted] = number + 1
            return number

    def observer_of(self, record: str) -> Observer:
        """Return who looks at a record's tensors: of some the values are kept too."""
        return self._storing if self.selection.stores(record) else self.observer

    def remove_at_step(self, handle: Any) -> None:
        """Remove a hook on a tensor of the user's when the step ends."""
        self._leaf_hooks.append(handle)

    def begin(self, api: Api, args: Sequence[Any], kwargs: dict[str, Any], frame: FrameType) -> Call | None:
        """Number an API call and look at its inputs, which it may overwrite."""
        # A recomputed forward runs inside backward with gradients on; it has numbers of its own, so that
        # the other calls keep theirs whether or not activations are recomputed.
        in_backward = _in_backward()
        recomputed = in_backward and torch.is_grad_enabled()
        if in_backward and _gradients.in_compiled_backward():
            return None
        counted = f"{api.name}#recompute" if recomputed else api.name
        number = self.number(counted)
        name = f"{api.name}.{number}.forward{'#recompute' if recomputed else ''}"
        parents = self.parents
        parent = parents[-1] if parents else None
        if not self.selection.takes_call(name, parents):
            return None
        call = self.open(Draft(name, "forward"), args, kwargs, parent)
        if api.writes or "out" in kwargs:
            self.meter.flush()  # else its inputs are the same after it, and measured together with its outputs
        call.draft.is_recompute, call.draft.in_backward = recomputed, in_backward and not recomputed
        call.frame = frame
        return call

    def open(self, draft: Draft, args: Sequence[Any], kwargs: dict[str, Any], parent: str | None) -> Call:
        """Look at the inputs of a call of an API or a module."""
        if self.selection.takes(draft.name, "forward", "input"):
            observer = self.observer_of(draft.name)
            draft.input_args, draft.input_kwargs = observer.nest(list(args)), observer.nest(kwargs)
        call = Call(draft, parent=parent)
        if torch.is_grad_enabled():
            found: list[tuple[int, torch.Tensor]] = []
            call.slots, call.kwarg_slots = differentiable(list(args), found), differentiable(kwargs, found)
            # Without an input that requires a gradient too: a module's parameters may give its output one.
            call.edges = _gradients.InputEdges(found)
        if args and isinstance(args[0], torch.Tensor):
            call.mutated = args[0]
        call.spent_before = self.boundary.spent
        call.began = time.perf_counter()
        return call

    def end(self, call: Call, output: Any, *, keep: bool = True) -> None:
        """Look at the outputs of a call and watch for its gradients."""
        draft = call.draft
        draft.seconds = self._seconds(call)
        outputs = list(output) if isinstance(output, (tuple, list)) and not isinstance(output, torch.Size) else [output]
        if self.selection.takes(draft.name, "forward", "output"):
            draft.output = self.observer_of(draft.name).nest(outputs, keep=keep)
        self.meter.flush()
        self._add_call(call)
        self._watch(call, outputs)

    def failed(self, call: Call, error: BaseException) -> None:
        """Record a call that raised; recomputation ends early by raising, which is no failure."""
        if type(error).__name__ == "_StopRecomputationError":
            return
        call.draft.seconds = self._seconds(call)
        call.draft.error = f"{type(error).__name__}: {str(error)[:500]}"
        self.meter.flush()
        self._add_call(call)

    def _seconds(self, call: Call) -> float:
        """Return what a call took without what recording the calls inside it took."""
        return max(0.0, time.perf_counter() - call.began - (self.boundary.spent - call.spent_before))

    def _add_call(self, call: Call) -> None:
        if self.stacks is not None and call.frame is not None:
            self.stacks.note(call.draft.name, call.frame)
        self.add(call.draft, call.parent)

    def add(self, draft: Draft, parent: str | None) -> None:
        with self._lock:
            self._drafts.append(draft)
            self._construct[draft.name] = parent

    def take_step(self) -> FinishedStep:
        """Return what was recorded since the last time and begin anew."""
        with self._lock:
            drafts, self._drafts = self._drafts, []
            construct, self._construct = self._construct, {}
            self._numbers.clear()
            self._generation += 1
            for handle in self._leaf_hooks:
                handle.remove()
            self._leaf_hooks.clear()
            self.observer.forget()
            self.meter.finish()
            records = [draft.finish() for draft in drafts if draft.name in construct]
            stacks = self.stacks.groups() if self.stacks is not None else []
            if self.stacks is not None:
                self.stacks.forget()
            return FinishedStep(records, stacks, construct)

    def _watch(self, call: Call, outputs: list[Any]) -> None:
        if call.edges is None or not self.selection.takes_direction("backward"):
            return
        found: list[tuple[int, torch.Tensor]] = []
        slots = differentiable(outputs, found)
        name = call.draft.name.replace(".forward", ".backward")
        if not self.selection.takes_backward(name, call.draft.name):
            return
        draft = BackwardDraft(name, call.slots, call.kwarg_slots, slots)
        taker = _Taker(self, draft, _backward_parent(call.parent))
        if found:
            handles = _gradients.watch(
                call.edges, found, take_input=taker.take_input, take_output=taker.take_output, guard=taker.guard
            )
            self._leaf_hooks += handles
        elif call.mutated is not None and call.mutated.requires_grad:
            _gradients.watch_mutated(call.edges, call.mutated, take_input=taker.take_input, guard=taker.guard)

    @property
    def generation(self) -> int:
        """Counts steps: what a graph of an earlier step still says comes too late."""
        return self._generation

    def gradient(self, draft: BackwardDraft, side: str, slot: int, gradient: torch.Tensor, parent: str | None) -> None:
        """Take a gradient that autograd has just computed."""
        with self._lock:
            role: Role = "input" if side == "output" else "output"
            if not self.selection.takes(draft.name, "backward", role):
                return
            seen = self.observer_of(draft.name).nest(gradient)
            self.meter.flush()
            begun = draft.fill(torch._C._current_graph_task_id(), side, slot, seen)
            if begun is not None:
                self.add(begun, parent)


class _Taker:
    """Takes the gradients of one call, as long as its step lasts."""

    __slots__ = ("_draft", "_generation", "_parent", "_recorder")

    def __init__(self, recorder: Recorder, draft: BackwardDraft, parent: str | None) -> None:
        self._recorder, self._draft, self._parent = recorder, draft, parent
        self._generation = recorder.generation

    def take_input(self, slot: int, gradient: torch.Tensor) -> None:
        self._recorder.gradient(self._draft, "input", slot, gradient, self._parent)

    def take_output(self, slot: int, gradient: torch.Tensor) -> None:
        self._recorder.gradient(self._draft, "output", slot, gradient, self._parent)

    def guard(self, work: Callable[[], None]) -> None:
        if self._generation == self._recorder.generation:
            self._recorder.boundary.run(self._draft.name, work)


def _backward_parent(parent: str | None) -> str | None:
    return parent.replace(".forward.", ".backward.") if parent else None


def _in_backward() -> bool:
    return int(torch._C._current_graph_task_id()) != -1
