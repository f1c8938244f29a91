"""The listener that records: a draft for each call and each backward pass, handed on when the step ends."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
import torch
from torch.nn.parameter import is_lazy

from torchparity.calls import Call, Flat, Gradients, Interest, Listener, flat_output, text_of
from torchparity.calls.call_stacks import StackBook
from torchparity.naming import backward_of
from torchparity.ops import Kind, Op
from torchparity.recording.measuring.lineage import Source
from torchparity.recording.measuring.measurement_cache import MeasurementCache
from torchparity.recording.measuring.observed import ObservedTensor
from torchparity.recording.selection.selection import Plan, Selection
from torchparity.recording.step.autocast_use import AutocastUse
from torchparity.recording.step.call_lineage import CallLineage
from torchparity.recording.step.coverage import Coverage
from torchparity.recording.step.drafts import Draft
from torchparity.recording.step.pending_step import PendingStep
from torchparity.recording.step.step_text import StepEncoder

_is_any_autocast_enabled = torch._C._is_any_autocast_enabled
_UNRECORDED = Plan(*[False] * 7)
_COMPUTES = Kind.COMPUTES  # found faster than a member of an enumeration


class OutlivedError(Exception):
    """A call that another step saw begin: what it received belongs there, what it returned does not."""

    def __init__(self) -> None:
        super().__init__("the step ended while it ran; it is left out")


class NameTakenError(Exception):
    """A name is unique in a step: no reader could tell two records apart."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the step has a record {name[:200]} already; the second is left out")


class OpenRecord(msgspec.Struct, eq=False, gc=False):
    """The recorder's state of a call: its draft until it returns, then its backward passes.

    Hooks on the graph keep this object, so it lets go of the draft as soon as that is complete.
    """

    draft: Draft | None
    plan: Plan
    step: int
    passes: dict[int, Draft] | None = None  # by autograd's number of the pass


class Recorder(Listener):
    """Collects drafts between two ends of a step; used from the training thread and from autograd's."""

    def __init__(
        self, measurements: MeasurementCache, selection: Selection, stacks: StackBook | None, coverage: Coverage
    ) -> None:
        self.measurements, self.selection = measurements, selection
        self._stacks, self._coverage = stacks, coverage
        self._lock = threading.RLock()
        self._step = 0  # what a graph of an earlier step still says comes too late
        self._drafts: list[Draft] = []
        self._construct: dict[str, str | None] = {}  # the parent of each record
        self._parameter_drafts: dict[str, Draft] = {}
        self._called_modules: set[str] = set()
        self._moments = itertools.count()
        self.autocast = AutocastUse()
        self._flow = CallLineage(measurements)
        self._lineage = measurements.lineage
        self._unrecorded = OpenRecord(None, _UNRECORDED, 0)
        self._encoder = StepEncoder()

    def interest(self, op: Op) -> Interest:
        return self._coverage.interest(op)

    def before(self, call: Call) -> OpenRecord | None:
        """Begin a record: observe the inputs, which the call may overwrite."""
        plan = self.selection.plan_of_all or self.selection.plan(call.name, call.parents)
        if plan is None:
            return self._before_unrecorded(call) if call.module is None else None
        if self.autocast.seen is None and _is_any_autocast_enabled():
            self.autocast.note()
        draft = Draft(call.name, "forward", is_recompute=call.is_recompute, in_backward=call.in_backward)
        draft.source = Source(call.name, self._lineage.table, True)
        inputs = call.inputs.walked()
        if call.module is not None:
            # At a level without APIs only what the model is called with first is certain to be no result.
            self._lineage.is_blind = not self._coverage.apis and bool(call.parents or self._drafts)
        if call.op.exposes:
            self.measurements.writes.never_cache(*inputs.tensors)
        if plan.observes_inputs:
            draft.input_args, draft.input_kwargs = inputs.args_form, inputs.kwargs_form
            draft.inputs = (
                self._observe_with_lists(inputs, plan)
                if inputs.ranges
                else self.measurements.observe_all(inputs.tensors, keep_values=plan.keeps_values)
            )
        elif call.writes or not plan.keeps_forward:
            self.measurements.writes.trace(inputs.tensors)
        if call.module is not None:
            self._called_modules.add(call.module_name)
            draft.parameters = self._observe_parameters(call.module, plan)
        if plan.wants_gradients and call.op.has_gradient and torch.is_grad_enabled():
            call.wants_gradients = True
        if call.writes:
            self.measurements.flush()  # else its inputs are the same after it, and measured together with its outputs
        return OpenRecord(draft, plan, self._step)

    def after(self, call: Call, state: OpenRecord, output: Any) -> None:
        """Observe the outputs of a call and add its record."""
        outputs = (call.outputs or flat_output(output)).walked()
        if state is self._unrecorded:
            self._after_unrecorded(call, outputs)
            return
        if call.op.kind is _COMPUTES and not call.inputs.tensors and not outputs.tensors:
            return  # torch.device("cpu"), torch.set_grad_enabled(False): nothing to compare
        draft, plan = state.draft, state.plan
        maker = None if draft is None else draft.source
        if call.op.leaves_unwritten or not plan.keeps_forward or state.step != self._step:
            maker = self._flow.maker(call, maker if plan.keeps_forward and state.step == self._step else None)
        if call.module is None and (call.writes or output is None) and maker is not None:
            self._flow.written(call, output, maker)
        if draft is not None and plan.observes_outputs:
            draft.output = outputs.args_form
            draft.outputs = (
                self._observe_with_lists(outputs, plan, maker)
                if outputs.ranges and not call.op.creates
                else self.measurements.observe_all(
                    outputs.tensors, remember=not call.op.creates, keep_values=plan.keeps_values, maker=maker
                )
            )
        else:
            self.measurements.writes.trace(outputs.tensors, maker)
        self.measurements.flush()
        self._add_call(call, state)

    def raised(self, call: Call, state: OpenRecord, error: BaseException) -> None:
        """Add the record of a call that raised; it may have written before it did."""
        if call.writes and call.module is None:
            self.wrote(call.op, call.args, call.kwargs)
        if state is self._unrecorded:
            return
        if state.draft is not None:
            state.draft.error = f"{type(error).__name__}: {text_of(error)[:500]}"
        self.measurements.flush()
        self._add_call(call, state)

    def gradients(self, call: Call, state: OpenRecord, received: Gradients, returned: Gradients) -> None:
        """Observe the gradients of a call, in a record of their own for each backward pass."""
        plan = state.plan
        arrived = received if plan.observes_received else ()
        left = returned if plan.observes_returned else ()
        if not arrived and not left:
            return
        with self._lock:  # a step that ends in another thread meanwhile comes before or after
            if state.step != self._step:
                return
            draft = self._backward_draft(call, state)
            keeps_values = bool(self.selection.stored) and self.selection.stores(draft.name)
            sides = ((arrived, draft.inputs, None), (left, draft.outputs, draft.source))
            for gradients, observed, maker in sides:
                for slot, gradient in gradients:
                    observed[slot] = self.measurements.observe(gradient, keep_values=keeps_values, maker=maker)  # type: ignore[index]
            draft.moment = next(self._moments)
        self.measurements.flush()

    def parameter_gradient(
        self, module: str, parameter: str, event: int, gradient: torch.Tensor | None, only_called: bool
    ) -> None:
        record = f"{module}.parameters_grad.{event}"
        if not self._takes_parameter_gradient(module, record, only_called):
            return
        with self._lock:
            draft = self._parameter_drafts.get(record)
            if draft is None:
                source = self._lineage.record(record)
                draft = self._parameter_drafts[record] = Draft(record, "parameters_grad", source=source)
                self.add(draft, None)
            if gradient is not None:
                keeps_values = self.selection.stores(record)
                draft.gradients = draft.gradients or {}
                draft.gradients[parameter] = self.measurements.observe(
                    gradient, keep_values=keeps_values, maker=draft.source
                )
                draft.moment = next(self._moments)
        self.measurements.flush()

    def exposed(self, tensors: Sequence[torch.Tensor]) -> None:
        self.measurements.writes.never_cache(*tensors)

    def lent(self, tensors: Sequence[torch.Tensor]) -> None:
        self.measurements.writes.never_cache(*tensors, until_returned=True)

    def returned(self, tensors: Sequence[torch.Tensor]) -> None:
        self.measurements.writes.cache_again(*tensors)

    def wrote(self, op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self._flow.wrote(op, args, kwargs)

    def wrote_unseen(self) -> None:
        self.measurements.writes.invalidate_all()

    def ran_unseen(self, *, only_backward: bool) -> None:
        if only_backward:
            self._lineage.may_be_gradient = True
        else:
            self._lineage.may_be_anything = True

    def passed(self, op: Op, args: Sequence[Any], kwargs: dict[str, Any], output: Any) -> None:
        self._flow.passed(op, args, kwargs, output)

    def add(self, draft: Draft, parent: str | None) -> None:
        """Add a record to the step, inside of `parent`."""
        with self._lock:
            if draft.name in self._construct:
                raise NameTakenError(draft.name)
            self._drafts.append(draft)
            self._construct[draft.name] = parent
            draft.moment = next(self._moments)

    def add_value(self, draft: Draft, flat: Flat) -> None:
        """Add the record of a value saved by hand."""
        keeps_values = self.selection.stores(draft.name)
        draft.inputs = self.measurements.observe_all(flat.tensors, keep_values=keeps_values)
        self.measurements.flush()
        self.add(draft, None)

    def observe_into(self, draft: Draft, slot: int, gradient: torch.Tensor) -> None:
        """Observe a gradient of a value saved by hand."""
        observed = self.measurements.observe(gradient, keep_values=self.selection.stores(draft.name))
        draft.inputs[slot] = observed  # type: ignore[index]
        self.measurements.flush()

    def take_step(self, step: int) -> PendingStep:
        """Return what was recorded since the last time and begin anew; `step` is its number in the run."""
        with self._lock:
            drafts, self._drafts = sorted(self._drafts, key=attrgetter("moment")), []
            in_file = [draft for draft in drafts if draft.direction != "debug"]
            for position, draft in enumerate(in_file):
                if draft.source is not None:
                    draft.source.number = position
            construct, self._construct = self._construct, {}
            self._parameter_drafts.clear()
            self._called_modules.clear()
            self._step += 1
            origins = self._lineage.table
            origins.records = len(in_file)
            measurements = self.measurements.finish_step(step)
            stacks = self._stacks.groups() if self._stacks is not None else []
            if self._stacks is not None:
                self._stacks.forget()
            return PendingStep(drafts, stacks, construct, measurements, origins, self._encoder)

    def _before_unrecorded(self, call: Call) -> OpenRecord:
        """Trace what a call that is left out receives, where it may write it."""
        if call.writes:
            self.measurements.writes.trace(call.inputs.walked().tensors)
        return self._unrecorded

    def _after_unrecorded(self, call: Call, outputs: Flat) -> None:
        """Hand on the lineage through a call that is left out."""
        call.inputs.walked()
        if call.writes:
            self._flow.wrote(call.op, call.args, call.kwargs)
        self.measurements.writes.trace(outputs.tensors, self._flow.maker(call, None))

    def _add_call(self, call: Call, state: OpenRecord) -> None:
        draft, state.draft = state.draft, None
        with self._lock:
            if draft is None or state.step != self._step:
                raise OutlivedError
            if not state.plan.keeps_forward and draft.error is None:
                return
            draft.seconds = call.seconds
            self.add(draft, call.parents[-1] if call.parents else None)
            if self._stacks is not None and call.frame is not None:
                self._stacks.note(draft.name, call.frame)

    def _backward_draft(self, call: Call, state: OpenRecord) -> Draft:
        graph_task = torch._C._current_graph_task_id()
        passes = state.passes
        if passes is None:
            passes = state.passes = {}
        draft = passes.get(graph_task)
        if draft is None:
            again = f"#{len(passes) + 1}" if passes else ""
            draft = passes[graph_task] = Draft(
                backward_of(call.name) + again,
                "backward",
                input_args=None if call.outputs is None else call.outputs.args_form,
                output=call.inputs.args_form,
                output_kwargs=call.inputs.kwargs_form,
                inputs={},
                outputs={},
            )
            draft.source = self._lineage.record(draft.name)
            self.add(draft, None if call.parent is None else backward_of(call.parent))
        return draft

    def _observe_with_lists(self, flat: Flat, plan: Plan, maker: Source | None = None) -> tuple[ObservedTensor, ...]:
        """Observe tensors among which are long lists, each as a whole: an optimizer hands the same ones over again."""
        observe_all, keeps_values = self.measurements.observe_all, plan.keeps_values
        observed: tuple[ObservedTensor, ...] = ()
        for place in flat.ranges:
            observed += observe_all(flat.tensors[len(observed) : place.start], keep_values=keeps_values, maker=maker)
            observed += observe_all(flat.tensors[place.start : place.stop], keep_values=keeps_values, maker=maker)
        return observed + observe_all(flat.tensors[len(observed) :], keep_values=keeps_values, maker=maker)

    def _observe_parameters(self, module: torch.nn.Module, plan: Plan) -> dict[str, ObservedTensor]:
        observe = self.measurements.observe
        return {
            name: observe(parameter, keep_values=plan.keeps_values)
            for name, parameter in module._parameters.items()
            if parameter is not None and not is_lazy(parameter)
        }

    def _takes_parameter_gradient(self, module: str, record: str, only_called: bool) -> bool:
        """Decide about a gradient: it belongs to the module's calls. Some modules' weights are used without a call."""
        selection = self.selection
        if not selection.takes_backwards:
            return False
        return module in self._called_modules or selection.names(record) or (selection.is_open and not only_called)
