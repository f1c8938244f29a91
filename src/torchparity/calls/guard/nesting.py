"""The surroundings of each thread: open modules and optimizers, a wrapped function, a compiled region."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType, FrameType

from torchparity.calls.guard.frames import Place, Stack, has_caller
from torchparity.naming import OPTIMIZER


class _Thread(threading.local):
    """The state of one thread."""

    def __init__(self) -> None:
        self.step = -1
        self.parents: list[str] = []
        self.optimizers: list[Place] = []
        self.is_in_function = False
        self.is_in_compiled = False


class Nesting:
    """Knows the modules and optimizers around a call, the outermost first.

    torch runs no hook when a module or an optimizer is interrupted, so who asks for a call's
    parents gives the frame it is called from, and what no longer runs is left.
    """

    def __init__(self, optimizer_was_interrupted: Callable[[], None]) -> None:
        self._optimizer_was_interrupted = optimizer_was_interrupted
        self._thread = _Thread()
        self._step = 0
        self._module_code: CodeType | None = None  # the function of torch's that calls the hooks of modules

    def begin_step(self) -> None:
        """Forget all parents: a thread may be inside a module when a step ends."""
        self._step += 1

    @property
    def parents(self) -> list[str]:
        """The state of this thread: the calls that it is inside of."""
        thread = self._thread
        if thread.step != self._step:
            thread.step, thread.parents, thread.optimizers = self._step, [], []
        return thread.parents

    @property
    def is_in_optimizer(self) -> bool:
        """True while an optimizer runs in this thread, and no module inside of it."""
        thread = self._thread
        return bool(thread.optimizers) and thread.step == self._step and thread.parents[-1:] == [OPTIMIZER]

    @property
    def is_in_function(self) -> bool:
        """True inside a wrapped function in this thread: what that calls is part of its call."""
        return self._thread.is_in_function

    @is_in_function.setter
    def is_in_function(self, value: bool) -> None:
        self._thread.is_in_function = value

    @property
    def is_in_compiled(self) -> bool:
        """True where this thread is inside a compiled region, which is skipped as a whole."""
        return self._thread.is_in_compiled

    @is_in_compiled.setter
    def is_in_compiled(self, value: bool) -> None:
        self._thread.is_in_compiled = value

    def enter_module(self, record: str, code: CodeType) -> None:
        """Go into a module; `code` is the function that called its hook."""
        self._module_code = code
        self.parents.append(record)

    def leave_module(self, record: str) -> None:
        """Leave a module, and whatever inside of it did not say that it ended."""
        parents = self.parents
        if record in parents:
            del parents[parents.index(record) :]

    def enter_optimizer(self, frame: FrameType) -> None:
        self.parents.append(OPTIMIZER)
        self._thread.optimizers.append(Stack(frame).innermost())

    def leave_optimizer(self) -> None:
        """Leave the innermost: one may be inside of another."""
        parents = self.parents
        if self._thread.optimizers:
            self._thread.optimizers.pop()
            while parents and parents.pop() != OPTIMIZER:
                pass

    def leave_ended_optimizers(self, stack: Stack) -> None:
        """Leave the optimizers that raised, for which torch runs no hook."""
        while OPTIMIZER in self.parents and not stack.is_inside(self._thread.optimizers[-1]):
            self.leave_optimizer()
            self._optimizer_was_interrupted()

    def parents_at(self, frame: FrameType) -> tuple[str, ...]:
        """Return what the call at `frame` is inside of, after leaving what was interrupted before it."""
        thread = self._thread
        if thread.step != self._step:
            thread.step, thread.parents, thread.optimizers = self._step, [], []
        parents = thread.parents
        if not parents:
            return ()
        if parents[-1] == OPTIMIZER:
            if not has_caller(frame, thread.optimizers[-1].code):
                self.leave_ended_optimizers(Stack(frame))
        elif self._module_code is not None and not has_caller(frame, self._module_code):
            parents.clear()
        return tuple(parents)

    def leave_all(self) -> None:
        """Leave everything in this thread: nobody listens any more."""
        self.parents.clear()
