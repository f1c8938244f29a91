"""The one way of a call: numbered, told to the listeners before and after it runs, its gradients watched.

    interceptor -> run(audience, function, args, kwargs, frame)
                       begin    number the call, find its parents, `before` of each listener
                       function(*args, **kwargs)
                       end      `replacement`, then `after` of each listener, hooks on the graph
                       or fail  `raised` of each listener
    autograd    -> hooks on the graph -> `gradients` of each listener

Interceptors that cannot wrap the function (hooks of modules) or whose result comes later
(collectives) call `begin`, `end` and `fail` themselves.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch
import torch.utils.checkpoint

from torchparity.calls.arguments import Flat, flat_output
from torchparity.calls.arrival import wait_for_arrival
from torchparity.calls.audience import Attention, Audience, audience_of
from torchparity.calls.call import Call
from torchparity.calls.gradients.graph import InputEdges, watch_mutated, watch_outputs
from torchparity.calls.gradients.hooks import Hooks
from torchparity.calls.guard.boundary import FAILED, Boundary, guarded
from torchparity.calls.guard.endings import EndingBoundary
from torchparity.calls.guard.frames import Stack
from torchparity.calls.guard.nesting import Nesting
from torchparity.calls.listener import Interest, Listener
from torchparity.calls.memory_events import MemoryEvents
from torchparity.naming import RECOMPUTE_MARK
from torchparity.ops import Op


class Dispatcher:
    """Tells its listeners of every call that its interceptors see."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners
        self.memory = MemoryEvents(listeners)
        self._replacing = tuple(listener for listener in listeners if listener.replaces_outputs)
        self._ending = tuple(listener for listener in listeners if listener.ends_training)
        self.boundary = Boundary()
        self._telling = EndingBoundary(self.boundary, self._take_ending) if self._ending else self.boundary
        self.nesting = Nesting(self._optimizer_was_interrupted)
        self.attention = Attention.OFF
        self.step = 0  # counts steps: what a graph of an earlier one still says comes too late
        self._late_gradients = 0  # that came after the step of their call, while another was listened to
        self._numbers: dict[str, int] = {}
        self._lock = threading.RLock()
        self._step_hooks: list[Any] = []
        self._graph_makers = 0

    # What interceptors call

    def audience(self, op: Op) -> Audience:
        """Ask each listener what it wants to know of a function's calls."""
        return audience_of(op, self.listeners, [self._interest(listener, op) for listener in self.listeners])

    def run(
        self,
        audience: Audience,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        frame: FrameType,
    ) -> Any:
        """Call a function and tell the listeners; return what it returns, or what a listener puts in its place."""
        call = self.begin_function(audience, args, kwargs, frame)
        if call is None:
            return function(*args, **kwargs)
        call.function = function
        try:
            output = function(*args, **kwargs)
        except BaseException as error:
            self.fail(call, error)
            raise
        return self.end(call, output)

    def begin_function(
        self, audience: Audience, args: Sequence[Any], kwargs: dict[str, Any], frame: FrameType
    ) -> Call | None:
        """Number a call of a function and tell its audience that it begins; None: nobody shall be told of its end."""
        call: Call | None = self.boundary.run(audience.op.name, self._begin_function, audience, args, kwargs, frame)
        if call is not None:
            call.spent_before, call.began = self.boundary.spent, time.perf_counter()
        return call

    def start_clock(self, call: Call) -> None:
        """Begin to measure what a call takes; outside of the boundary, whose own time is left out."""
        call.spent_before, call.began = self.boundary.spent, time.perf_counter()

    def begin(self, call: Call, listeners: Sequence[Listener]) -> None:
        """Tell the listeners that a call begins; inside the boundary."""
        states: list[Any] = []
        for listener in listeners:
            state = guarded(listener.failures, call.op.name, listener.before, call)
            states.append(None if state is FAILED else state)
        call.listeners, call.states = listeners, tuple(states)
        if call.wants_gradients:
            call.sequence = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]
            if call.writes:
                call.take_edges()

    def end(self, call: Call, output: Any) -> Any:
        """Tell the listeners what a call returned; return what the user gets."""
        if self._replacing:
            output = self._replaced(call, output)
        self._telling.run(call.op.name, self.end_inside, call, output)
        return output

    @property
    def needs_parents(self) -> bool:
        """True where a listener reads the modules around calls, or is told of their own."""
        return any(listener.needs_parents for listener in self.listeners)

    @property
    def replaces_outputs(self) -> bool:
        """True where a listener may replace outputs."""
        return bool(self._replacing)

    def fail(self, call: Call, error: BaseException) -> None:
        """Tell the listeners that a call raised. Recomputation ends early by raising, which is no failure."""
        if type(error).__name__ != "_StopRecomputationError":
            self.boundary.run(call.op.name, self._fail, call, error)

    def number(self, counted: str) -> tuple[int, str]:
        """Count a call; return its number in this step and its mark.

        A recomputed forward runs inside backward with gradients on; it has numbers of its own, so that
        the other calls keep theirs whether or not activations are recomputed.
        """
        is_recomputed = torch._C._current_graph_task_id() != -1 and torch.is_grad_enabled() and self._is_recomputing()
        mark = RECOMPUTE_MARK if is_recomputed else ""
        with self._lock:
            number = self._numbers.get(counted + mark, 0)
            self._numbers[counted + mark] = number + 1
        return number, mark

    def count(self, name: str) -> None:
        """Count a call that nobody is told of."""
        self.boundary.run(name, self.number, name)

    def parameter_gradient(
        self, module: str, parameter: str, event: int, gradient: torch.Tensor | None, *, only_called: bool
    ) -> None:
        """Tell that a gradient was accumulated into a parameter."""
        arguments = (module, parameter, event, gradient, only_called)
        for listener in self.listeners:
            guarded(listener.failures, module, listener.parameter_gradient, *arguments)

    def makes_graph(self, passes: int) -> None:
        """Note that a backward pass with `create_graph` began (1) or ended (-1)."""
        self._graph_makers += passes

    # What a session calls

    def begin_step(self) -> None:
        """Number calls from 0 again; gradients of earlier calls come too late from now on."""
        with self._lock:
            self.step += 1
            self._numbers.clear()
            self.nesting.begin_step()
            handles, self._step_hooks = self._step_hooks, []
        for handle in handles:
            handle.remove()

    def take_late_gradients(self) -> int:
        """Return how many gradients came after the step of their call, since the last time."""
        late, self._late_gradients = self._late_gradients, 0
        return late

    def remove_at_step(self, handle: Any) -> None:
        """Remove a hook on a tensor of the user's when the step ends."""
        self._step_hooks.append(handle)

    # Inside the boundary

    def _begin_function(
        self, audience: Audience, args: Sequence[Any], kwargs: dict[str, Any], frame: FrameType
    ) -> Call | None:
        in_backward = torch._C._current_graph_task_id() != -1
        if in_backward and _in_compiled_backward():
            return None
        op = audience.op
        number, mark = self.number(op.name)
        call = Call(
            op,
            f"{op.name}.{number}.forward{mark}",
            self.step,
            self.nesting.parents_at(frame),
            Flat(args, kwargs),
            frame,
            is_recompute=bool(mark),
            in_backward=in_backward and not mark,
            writes=op.writes or "out" in kwargs,
        )
        if op.exposes:
            for listener in self._others(audience.listeners):
                guarded(listener.failures, op.name, listener.exposed, call.inputs.walked().tensors)
        self.begin(call, audience.listeners)
        return call

    def end_inside(self, call: Call, output: Any) -> None:
        """Tell the listeners what a call returned, where nobody replaces it."""
        call.seconds = max(0.0, time.perf_counter() - call.began - (self.boundary.spent - call.spent_before))
        if call.op.arrives_later:
            wait_for_arrival(call, output)
        call.outputs = flat_output(output)
        for place, (listener, state) in enumerate(zip(call.listeners, call.states, strict=True)):
            if state is not None:
                if guarded(listener.failures, call.op.name, listener.after, call, state, output) is FAILED:
                    call.states = (*call.states[:place], None, *call.states[place + 1 :])
            elif call.writes and not call.module_name:
                guarded(listener.failures, call.op.name, listener.wrote, call.op, call.args, call.kwargs)
        if len(call.listeners) != len(self.listeners):
            self._tell_others_of_writes(call)
        if call.wants_gradients:
            self._watch_gradients(call, call.outputs)
        _let_go(call)

    def _tell_others_of_writes(self, call: Call) -> None:
        if call.writes and not call.module_name:
            for listener in self._others(call.listeners):
                guarded(listener.failures, call.op.name, listener.wrote, call.op, call.args, call.kwargs)

    def _watch_gradients(self, call: Call, outputs: Flat) -> None:
        hooks = Hooks(call.op.name, self._telling, call, self)
        heads = [(slot, tensor) for slot, tensor in enumerate(outputs.walked().tensors) if tensor.requires_grad]
        if heads:
            before = call.edges or InputEdges(call.inputs.walked().tensors, call.sequence)
            self._step_hooks += watch_outputs(before, heads, hooks)
        elif call.edges is not None and (mutated := call.mutated()) is not None:
            watch_mutated(call.edges, mutated, hooks)

    def _fail(self, call: Call, error: BaseException) -> None:
        call.seconds = max(0.0, time.perf_counter() - call.began - (self.boundary.spent - call.spent_before))
        for listener, state in zip(call.listeners, call.states, strict=True):
            if state is not None:
                guarded(listener.failures, call.op.name, listener.raised, call, state, error)
            elif call.writes and not call.module_name:
                guarded(listener.failures, call.op.name, listener.wrote, call.op, call.args, call.kwargs)
        self._tell_others_of_writes(call)
        _let_go(call)

    def tell_gradients(self, call: Call, received: Any, returned: Any) -> None:
        """Tell who listens to a call of gradients that came for it, unless its step is over."""
        if call.step != self.step:
            self._late_gradients += self.attention is Attention.LISTENING
            return
        for listener, state in zip(call.listeners, call.states, strict=True):
            if state is not None:
                guarded(listener.failures, call.op.name, listener.gradients, call, state, received, returned)

    def _interest(self, listener: Listener, op: Op) -> Interest:
        interest = guarded(listener.failures, op.name, listener.interest, op)
        return interest if isinstance(interest, Interest) else Interest.NOTHING

    def _others(self, hearing: Sequence[Listener]) -> Sequence[Listener]:
        """Return the listeners that do not hear of a call, and may want to know what it does to memory."""
        if len(hearing) == len(self.listeners):
            return ()
        return [listener for listener in self.listeners if listener not in hearing]

    def _replaced(self, call: Call, output: Any) -> Any:
        replaced = [output]
        self.boundary.run(call.op.name, self._replace, call, replaced)
        return replaced[0]

    def _replace(self, call: Call, replaced: list[Any]) -> None:
        for listener, state in zip(call.listeners, call.states, strict=True):
            if state is not None and listener.replaces_outputs:
                output = guarded(listener.failures, call.op.name, listener.replacement, call, state, replaced[0])
                replaced[0] = replaced[0] if output is FAILED else output

    def _take_ending(self) -> Exception | None:
        """Return the error with which a listener ends the training; None where it goes on."""
        endings = [guarded(listener.failures, "ending", listener.ending) for listener in self._ending]
        return next((ending for ending in endings if isinstance(ending, Exception)), None)

    def _optimizer_was_interrupted(self) -> None:
        self.memory.wrote_unseen("optimizer")

    def _is_recomputing(self) -> bool:
        """Tell recomputation from a backward that makes a graph of its own, in which gradients are on too."""
        return not self._graph_makers or Stack(sys._getframe()).runs_code_of(torch.utils.checkpoint.__file__)


def _in_compiled_backward() -> bool:
    """Tell whether the backward of a compiled region is running: its calls are the compiler's, not the user's."""
    node = torch._C._current_autograd_node()
    return node is not None and node.name().startswith("CompiledFunction")


def _let_go(call: Call) -> None:
    """Drop the user's objects of a call that has ended; forms stay."""
    call.inputs.let_go()
    if call.outputs is not None:
        call.outputs.let_go()
    call.frame = call.function = call.module = call.edges = call.first = None
