"""One step in the making: numbers calls, keeps what they saw, and hands the records on when the step ends."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import CodeType, FrameType
from typing import Any

import msgspec
import torch
import torch.utils.checkpoint

from torchparity.calls.gradients import edges
from torchparity.calls.guard.boundary import Boundary
from torchparity.calls.guard.frames import Stack, has_caller
from torchparity.ops.catalog import Api
from torchparity.recording.measuring.measurement_cache import MeasurementCache
from torchparity.recording.selection.selection import Role, Selection
from torchparity.recording.step.call_stacks import StackBook
from torchparity.recording.step.drafts import BackwardDraft, Draft, Observer, slots_of
from torchparity.recording.step.pending_step import PendingStep

_OPTIMIZER = "optimizer"


class OutlivedError(Exception):
    """A call that another step saw begin: what it received belongs there, what it returned does not."""

    def __init__(self) -> None:
        super().__init__("the step ended while it ran; it is left out")


class NameTakenError(Exception):
    """A name is unique in a step: no reader could tell two records apart."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the step has a record {name[:200]} already; the second is left out")


class Call(msgspec.Struct):
    """A call under way: its draft, and the inputs whose gradients will arrive."""

    draft: Draft
    generation: int
    inputs: list[torch.Tensor] | None = None  # None where gradients are not watched
    sequence: int = 0
    edges: edges.InputEdges | None = None  # of a call that may change its inputs
    slots: Any = None
    kwarg_slots: Any = None
    began: float = 0.0
    spent_before: float = 0.0
    parent: str | None = None
    mutated: torch.Tensor | None = None
    version: int = 0  # of what it may change
    frame: Any = None  # where the call is; still running when the call ends

    def start_clock(self, boundary: Boundary) -> None:
        """Begin to measure what the call takes; outside of the boundary, whose own time is left out."""
        self.spent_before = boundary.spent
        self.began = time.perf_counter()


@dataclass
class Recorder:
    """Collects drafts between two ends of a step; used from the training thread and from autograd's."""

    measurements: MeasurementCache
    selection: Selection
    boundary: Boundary
    stacks: StackBook | None
    is_recording: bool = False
    is_waiting: bool = False  # for some call, or has had it: others are counted and no more
    late: int = 0  # gradients that came after the step of their call
    graphs_made: int = 0  # by how many backward passes that are under way, with `create_graph`

    def __post_init__(self) -> None:
        self.observer = Observer(self.measurements)
        self._storing = Observer(self.measurements, keep_values=True)
        self._local = threading.local()
        self._leaf_hooks: list[Any] = []
        self._numbers: dict[str, int] = {}
        self._drafts: list[Draft] = []
        self._construct: dict[str, str | None] = {}
        self._moments = itertools.count()
        self.module_code: CodeType | None = None  # what calls the hooks of modules
        self.lock = threading.RLock()
        self.generation = 0  # counts steps: what a graph of an earlier step still says comes too late

    @property
    def parents(self) -> list[str]:
        """The modules this thread is inside of, outermost first."""
        local = self._local
        if getattr(local, "generation", -1) != self.generation:  # a thread may be inside one when a step ends
            local.generation, local.parents, local.optimizers = self.generation, [], []
        found: list[str] = local.parents
        return found

    @property
    def is_in_optimizer(self) -> bool:
        """Whether an optimizer is under way in this thread, and no module inside of it."""
        parents = self.parents
        return bool(parents) and parents[-1] == _OPTIMIZER

    def enter_optimizer(self, frame: FrameType) -> None:
        """Note that what is called from here on is called by an optimizer."""
        self.parents.append(_OPTIMIZER)
        self._local.optimizers.append(Stack(frame).innermost())

    def leave_optimizer(self) -> None:
        """Leave the innermost: one may be inside of another."""
        parents = self.parents
        if self._local.optimizers:
            self._local.optimizers.pop()
            while parents and parents.pop() != _OPTIMIZER:
                pass

    def drop_ended_optimizers(self, stack: Stack) -> None:
        """Leave those that raised: torch calls no hook then."""
        while _OPTIMIZER in self.parents and not stack.is_inside(self._local.optimizers[-1]):
            self.leave_optimizer()
            self.measurements.invalidate_all()

    def _parents_at(self, frame: FrameType) -> list[str]:
        """Return what a call is inside of: torch tells no one that a module or an optimizer was interrupted."""
        parents = self.parents
        if self.is_in_optimizer:
            if not has_caller(frame, self._local.optimizers[-1].code):
                self.drop_ended_optimizers(Stack(frame))
        elif parents and self.module_code is not None and not has_caller(frame, self.module_code):
            parents.clear()
        return parents

    def number(self, counted: str) -> int:
        """Return how often something was called before in this step."""
        with self.lock:
            number = self._numbers.get(counted, 0)
            self._numbers[counted] = number + 1
            return number

    def count(self, counted: str) -> tuple[int, str]:
        """Count a call; return its number and what marks it.

        A recomputed forward runs inside backward with gradients on; it has numbers of its own, so that
        the other calls keep theirs whether or not activations are recomputed.
        """
        mark = "#recompute" if in_graph_task() and torch.is_grad_enabled() and self._is_recomputing() else ""
        return self.number(counted + mark), mark

    def _is_recomputing(self) -> bool:
        """Tell it from a backward that makes a graph of its own, in which gradients are on too."""
        return not self.graphs_made or Stack(sys._getframe()).runs_code_of(torch.utils.checkpoint.__file__)

    def observer_of(self, record: str) -> Observer:
        """Return who looks at a record's tensors: of some the values are kept too."""
        return self._storing if self.selection.stores(record) else self.observer

    def remove_at_step(self, handle: Any) -> None:
        """Remove a hook on a tensor of the user's when the step ends."""
        self._leaf_hooks.append(handle)

    def begin(self, api: Api, args: Sequence[Any], kwargs: dict[str, Any], frame: FrameType) -> Call | None:
        """Number an API call and look at its inputs, which it may overwrite."""
        in_backward = in_graph_task()
        if in_backward and edges.in_compiled_backward():
            return None
        number, mark = self.count(api.name)
        name, recomputed = f"{api.name}.{number}.forward{mark}", bool(mark)
        parents = self._parents_at(frame)
        if not self.selection.takes_call(name, parents):
            return None
        draft = Draft(name, "forward", is_recompute=recomputed, in_backward=in_backward and not recomputed)
        writes = api.writes or "out" in kwargs
        call = self.open(draft, args, kwargs, parents[-1] if parents else None, writes=writes)
        if writes:
            self.measurements.flush()  # else its inputs are the same after it, and measured together with its outputs
            self._expect_mutated(call, args)
        call.frame = frame
        return call

    def open(
        self, draft: Draft, args: Sequence[Any], kwargs: dict[str, Any], parent: str | None, *, writes: bool = True
    ) -> Call:
        """Look at the inputs of a call of an API or a module."""
        call = Call(draft, self.generation, parent=parent)
        found: list[torch.Tensor] | None = [] if torch.is_grad_enabled() and self.selection.takes_backwards else None
        if self.selection.takes("forward", "input"):
            observer = self.observer_of(draft.name)
            draft.input_args, call.slots = observer.look(args, found)
            if kwargs:
                draft.input_kwargs = observer.nest(kwargs)
        elif found is not None:
            call.slots = slots_of(list(args), found)
        if found is not None:
            if kwargs:
                call.kwarg_slots = slots_of(kwargs, found)
            # Without an input that requires a gradient too: a module's parameters may give its output one.
            call.inputs, call.sequence = found, edges.next_sequence()
            call.edges = edges.InputEdges(found, call.sequence) if writes else None
        return call

    def _expect_mutated(self, call: Call, args: Sequence[Any]) -> None:
        if call.inputs is not None and args and isinstance(args[0], torch.Tensor) and not args[0].is_inference():
            call.mutated, call.version = args[0], args[0]._version

    def end(self, call: Call, output: Any, *, keep: bool = True) -> None:
        """Look at the outputs of a call and watch for its gradients."""
        draft = call.draft
        draft.seconds = self._seconds(call)
        outputs = output if isinstance(output, (tuple, list)) and not isinstance(output, torch.Size) else (output,)
        found: list[torch.Tensor] | None = None if call.inputs is None else []
        if self.selection.takes("forward", "output"):
            draft.output, slots = self.observer_of(draft.name).look(outputs, found, keep=keep)
        elif found is not None:
            slots = slots_of(list(outputs), found)
        self.measurements.flush()
        self._add_call(call)
        if call.inputs is not None and found is not None:
            self._watch(call, call.inputs, slots, found)

    def failed(self, call: Call, error: BaseException) -> None:
        """Record a call that raised; recomputation ends early by raising, which is no failure."""
        if type(error).__name__ == "_StopRecomputationError":
            return
        call.draft.seconds = self._seconds(call)
        call.draft.error = f"{type(error).__name__}: {str(error)[:500]}"
        self.measurements.flush()
        self._add_call(call)

    def _seconds(self, call: Call) -> float:
        """Return what a call took without what recording the calls inside it took."""
        return max(0.0, time.perf_counter() - call.began - (self.boundary.spent - call.spent_before))

    def _add_call(self, call: Call) -> None:
        with self.lock:
            if call.generation != self.generation:
                raise OutlivedError
            if not self.selection.takes_forwards and call.draft.error is None:
                return
            self.add(call.draft, call.parent)
            if self.stacks is not None and call.frame is not None:
                self.stacks.note(call.draft.name, call.frame)

    def add(self, draft: Draft, parent: str | None) -> None:
        with self.lock:
            if draft.name in self._construct:
                raise NameTakenError(draft.name)
            self._drafts.append(draft)
            self._construct[draft.name] = parent
            self.has_more(draft)

    def has_more(self, draft: Draft) -> None:
        """Note that something arrived for a draft, which is therefore not complete before now."""
        draft.moment = next(self._moments)

    def take_step(self) -> PendingStep:
        """Return what was recorded since the last time and begin anew."""
        with self.lock:
            drafts, self._drafts = sorted(self._drafts, key=attrgetter("moment")), []
            construct, self._construct = self._construct, {}
            self._numbers.clear()
            self.generation += 1
            for handle in self._leaf_hooks:
                handle.remove()
            self._leaf_hooks.clear()
            measurements = self.measurements.finish_step()
            stacks = self.stacks.groups() if self.stacks is not None else []
            if self.stacks is not None:
                self.stacks.forget()
            return PendingStep(drafts, stacks, construct, measurements)

    def _watch(self, call: Call, inputs: list[torch.Tensor], slots: Any, found: list[torch.Tensor]) -> None:
        forward, mutated = call.draft.name, call.mutated
        has_mutated = mutated is not None and mutated.requires_grad and mutated._version != call.version
        if not found and not has_mutated:
            return
        backward = _backward_of(forward)
        if not self.selection.takes_backward(backward, forward):
            return
        taker = _Taker(self, BackwardDraft(backward, call.slots, call.kwarg_slots or {}, slots), call.parent)
        before = call.edges or edges.InputEdges(inputs, call.sequence)
        if found:
            self._leaf_hooks += edges.watch(before, found, taker)
        elif mutated is not None:
            edges.watch_mutated(before, mutated, taker)


class _Taker:
    """Takes the gradients of one call, as long as its step lasts."""

    __slots__ = ("_backward", "_generation", "_parent", "_recorder")

    def __init__(self, recorder: Recorder, backward: BackwardDraft, parent: str | None) -> None:
        self._recorder, self._backward, self._parent = recorder, backward, parent
        self._generation = recorder.generation

    def flush(self) -> None:
        self._recorder.measurements.flush()

    def take_output(self, slot: int, gradient: torch.Tensor) -> None:
        self._take("input", 0, slot, gradient)

    def take_input(self, slot: int, gradient: torch.Tensor) -> None:
        self._take("output", 1, slot, gradient)

    def run(self, work: Callable[..., None], *arguments: Any) -> None:
        recorder = self._recorder
        with recorder.lock:  # a step that ends in another thread meanwhile comes before or after
            if self._generation == recorder.generation:
                recorder.boundary.run(self._backward.name, work, *arguments)
            elif recorder.is_recording:
                recorder.late += 1

    def _take(self, role: Role, side: int, slot: int, gradient: torch.Tensor) -> None:
        recorder, backward = self._recorder, self._backward
        if not recorder.selection.takes("backward", role):
            return
        task = torch._C._current_graph_task_id()
        draft = backward.passes.get(task)
        if draft is None:
            draft = backward.begin(task)
            recorder.add(draft, _backward_parent(self._parent))
        if draft.arrived is not None:
            draft.arrived[side][slot] = recorder.observer_of(backward.name).nest(gradient)
            recorder.has_more(draft)


def _backward_of(forward: str) -> str:
    """Return the name of the backward record; modules may be called forward, too."""
    before, _, after = forward.rpartition(".forward")
    return f"{before}.backward{after}"


def _backward_parent(parent: str | None) -> str | None:
    return _backward_of(parent) if parent and ".forward." in parent else parent


def in_graph_task() -> bool:
    """Tell whether backward is running in this thread."""
    return int(torch._C._current_graph_task_id()) != -1
