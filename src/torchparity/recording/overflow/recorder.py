"""The listener of task overflow_check: finite arguments and a result that is not make a record, all else none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

import msgspec
import torch

from torchparity.calls import Call, Gradients, Interest, flat_output
from torchparity.calls.call_stacks import StackBook
from torchparity.naming import backward_of
from torchparity.ops import Kind, Op
from torchparity.recording.measuring.measurement_cache import MeasurementCache
from torchparity.recording.measuring.observed import ObservedTensor
from torchparity.recording.overflow.arguments import (
    CopiedTensors,
    Kept,
    KeptTensors,
    form_of,
    has_asked_for_it,
    observe_whole,
    unread_slots,
)
from torchparity.recording.overflow.finiteness import has_nonfinite
from torchparity.recording.overflow.flags import OverflowFlags
from torchparity.recording.overflow.loss_scaling import LossScaling
from torchparity.recording.selection.selection import Selection
from torchparity.recording.step.coverage import Coverage
from torchparity.recording.step.drafts import Draft
from torchparity.recording.step.pending_step import PendingStep
from torchparity.recording.step.recorder import Recorder
from torchparity.records import StackGroup

_log = logging.getLogger("torchparity")


class _Pass(msgspec.Struct, eq=False, gc=False):
    """One backward pass through a call: gradients that came in, until all that they make have been seen."""

    received: dict[int, torch.Tensor]
    seen: set[int]  # the inputs whose gradients have come
    is_over: bool = False  # it overflowed


class _Watched:
    """A call that is watched; what it keeps is let go of with its graph, or when the step ends."""

    __slots__ = ("__weakref__", "inputs", "outputs", "passes", "step", "unread")

    def __init__(self, step: int, inputs: Kept, unread: set[int]) -> None:
        self.step, self.unread = step, unread
        self.inputs: Kept | None = inputs
        self.outputs: list[ObservedTensor] = []  # without numbers: they were finite
        self.passes: dict[int, _Pass] = {}

    def let_go(self) -> None:
        self.inputs = None
        self.passes.clear()


class OverflowRecorder(Recorder):
    """Records the calls that overflow, up to `most` of them; -1 is no limit.

    With `ending` the training ends at the last of them, with the error that it returns for their number.
    """

    def __init__(
        self,
        measurements: MeasurementCache,
        selection: Selection,
        stacks: StackBook | None,
        *,
        most: int,
        ending: Callable[[int], Exception] | None = None,
    ) -> None:
        super().__init__(measurements, selection, stacks, Coverage(apis=True))
        self._most, self._ending = most, ending
        self.ends_training = ending is not None
        self._flags, self._watched = OverflowFlags(), WeakSet[_Watched]()
        self.scaling = LossScaling()
        self.found = 0

    @property
    def is_done(self) -> bool:
        """True where as many overflows came as were asked for."""
        return 0 <= self._most <= self.found

    def ending(self) -> Exception | None:
        """Return the error that ends the training, once as many overflows came as were asked for."""
        if self._ending is None or not self.is_done:
            return None
        ending, self._ending = self._ending, None
        return ending(self.found)

    def interest(self, op: Op) -> Interest:
        return Interest.CALLS if self._coverage.includes(op) else Interest.NOTHING

    def before(self, call: Call) -> Any:
        """Keep the arguments of a call, which may overflow."""
        if self.is_done or self.scaling.is_own_arithmetic(call.frame) or call.op.leaves_unwritten:
            return None
        if self.autocast.seen is None and torch._C._is_any_autocast_enabled():
            self.autocast.note()
        tensors, unread = call.inputs.walked().tensors, unread_slots(call)
        self._flags.look(tensors)
        inputs = CopiedTensors(tensors, unread, self.measurements) if call.writes else KeptTensors(tensors)
        if call.op.has_gradient and torch.is_grad_enabled():
            call.wants_gradients = True
        return _Watched(self._step, inputs, unread)

    def after(self, call: Call, state: Any, output: Any) -> None:
        """Look at what a call returned; record it where it overflowed."""
        outputs = (call.outputs or flat_output(output)).walked()
        written = call.inputs.tensors if call.writes else ()
        if self._stacks is not None and call.frame is not None:
            self._stacks.note(call.name, call.frame)
        if self._has_overflowed((*outputs.tensors, *written)):
            is_new = state.inputs is not None and not state.inputs.has_nonfinite(state.unread)
            if is_new and not has_asked_for_it(call) and not self._is_probing(call):
                state.outputs = [observe_whole(self.measurements, tensor) for tensor in outputs.tensors]
                self._add_forward(call, state)
                self.measurements.flush()
                self._report(call.name)
            state.let_go()  # what its gradients become is no news
        elif any(tensor.requires_grad for tensor in outputs.tensors):
            state.outputs = [form_of(tensor) for tensor in outputs.tensors]
            self._watched.add(state)
        else:
            state.let_go()

    def raised(self, call: Call, state: Any, error: BaseException) -> None:
        state.let_go()

    def gradients(self, call: Call, state: Any, received: Gradients, returned: Gradients) -> None:
        """Look at the gradients of a call, which is recorded with them where they overflow."""
        if self.is_done or state.inputs is None or state.step != self._step:
            return
        with self._lock:
            one = state.passes.setdefault(torch._C._current_graph_task_id(), _Pass({}, set()))
            one.received |= {slot: gradient.detach() for slot, gradient in received}
            one.seen |= {slot for slot, _ in returned}
            if returned and not one.is_over and self._has_overflowed([gradient for _, gradient in returned]):
                one.is_over = True
                is_new = not any(map(has_nonfinite, one.received.values()))
                if is_new and not state.inputs.has_nonfinite(state.unread) and not self.scaling.is_probing():
                    self._add_backward(call, state, one.received, dict(returned))
            if one.seen >= state.inputs.with_gradient:
                one.received.clear()
                state.inputs.release()

    def parameter_gradient(
        self, module: str, parameter: str, event: int, gradient: torch.Tensor | None, only_called: bool
    ) -> None:
        """Do nothing: the sum of gradients is no call."""

    def exposed(self, tensors: Sequence[torch.Tensor]) -> None:
        """Do nothing: no measurement is kept for another call."""

    def wrote(self, op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Do nothing, as in `exposed`."""

    def take_step(self, step: int) -> PendingStep:
        """Return the records of the step with their own call stacks, and nothing about who made their tensors."""
        for state in list(self._watched):
            state.let_go()
        self._watched.clear()
        self.scaling.end_step()
        if self.is_done:
            self._ending = None  # it would come at a call that has nothing to do with it
        done = super().take_step(step)
        names = {draft.name for draft in done.drafts}
        done.stacks = [
            StackGroup(recorded, group.frames)
            for group in done.stacks
            if (recorded := [name for name in group.records if name in names])
        ]
        done.origins = None
        return done

    def _has_overflowed(self, tensors: Sequence[torch.Tensor]) -> bool:
        has_risen = self._flags.look(tensors)
        return any(map(has_nonfinite, tensors)) or has_risen

    def _is_probing(self, call: Call) -> bool:
        """Tell whether a call works on gradients of a scaled loss: in backward, or in a sum over all ranks."""
        is_of_gradients = call.in_backward or call.op.kind is Kind.COLLECTIVE
        return is_of_gradients and self.scaling.is_probing()

    def _add_forward(self, call: Call, state: _Watched) -> None:
        draft = Draft(
            call.name,
            "forward",
            input_args=call.inputs.args_form,
            input_kwargs=call.inputs.kwargs_form,
            output=None if call.outputs is None else call.outputs.args_form,
            inputs=[] if state.inputs is None else state.inputs.observe(self.measurements),
            outputs=state.outputs,
            is_recompute=call.is_recompute,
            in_backward=call.in_backward,
            seconds=call.seconds,
        )
        self.add(draft, call.parent)

    def _add_backward(
        self, call: Call, state: _Watched, received: dict[int, torch.Tensor], returned: dict[int, torch.Tensor]
    ) -> None:
        if call.name not in self._construct:
            self._add_forward(call, state)
        again = f"#{len(state.passes)}" if len(state.passes) > 1 else ""
        draft = Draft(
            backward_of(call.name) + again,
            "backward",
            input_args=None if call.outputs is None else call.outputs.args_form,
            output=call.inputs.args_form,
            output_kwargs=call.inputs.kwargs_form,
            inputs={slot: observe_whole(self.measurements, tensor) for slot, tensor in received.items()},
            outputs={slot: observe_whole(self.measurements, tensor) for slot, tensor in returned.items()},
        )
        self.measurements.flush()
        self.add(draft, None if call.parent is None else backward_of(call.parent))
        self._report(draft.name)

    def _report(self, record: str) -> None:
        self.found += 1
        what = "its arguments are finite, and its result is not, or the device flags it"
        _log.warning("torchparity: %s overflows: %s", record, what)
        if self.is_done and self._ending is None:
            _log.info("torchparity: overflow_nums is reached (%d); training goes on unwatched", self.found)
