"""The recording of a script: a session that is begun and ended where the rule of steps says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from torchparity.calls import attempted, text_of
from torchparity.errors import ParityError
from torchparity.recording.session import Session
from torchparity.running.asked import Asked
from torchparity.running.checksums import Checksums
from torchparity.running.events import Events
from torchparity.running.model import named, outermost
from torchparity.running.outcome import LastStepDone, Outcome
from torchparity.running.step_rule import StepRule
from torchparity.text import counted


class ScriptRun:
    """Records the steps of the script that runs in this process.

    Whatever fails in here ends the recording and never the script.
    """

    def __init__(self, asked: Asked, outcome: Outcome) -> None:
        self._asked, self._outcome = asked, outcome
        config = asked.config()
        self._session = Session(config)
        self._last = max(config.step, default=None)
        self._no_model = nn.Module()  # stands for the model as long as that is not known
        self._model: nn.Module | None = None
        every = asked.checksum_every
        self._checksums = None if every is None else Checksums(asked.folder, every, asked.command)
        self._events = Events(StepRule(self), self._called, self._passed_back)
        self._step = 0
        self._is_open = False
        self._is_over = False

    def attach(self) -> None:
        self._events.attach()

    def begin(self) -> None:
        """Begin a step, or go on with one that was paused."""
        if not self._is_over:
            self._is_open = True
            if self._asked.records:
                self._guarded(self._session.start, self._no_model if self._model is None else self._model)

    def pause(self) -> None:
        if not self._is_over and self._asked.records:
            self._guarded(self._session.stop)

    def end(self) -> None:
        """End a step; after the last one that is wanted the recording too, and where that was asked for the script."""
        if not self._is_over:
            self._is_open = False
            self._outcome.steps += 1
            self._step += 1
            self._end_step()
        if self._outcome.is_last_step_done and self._asked.stop_after:
            raise LastStepDone(self._step - 1)

    def _end_step(self) -> None:
        if self._asked.records:
            self._guarded(self._session.step)
        if self._checksums is not None:
            self._guarded(self._checksums.end_step, self._step - 1)
        if self._last is not None and self._step > self._last:
            self._outcome.is_last_step_done = True
            if self._checksums is None or self._asked.stop_after:
                self.close(None)
            else:
                self._close_session(None)

    def close(self, error: BaseException | None) -> None:
        """End the recording; `error` ended the script."""
        if self._is_over:
            return
        self._is_over = True
        self._outcome.steps += self._is_open
        if not self._asked.stop_after:  # or a script that catches our SystemExit would go on
            self._events.detach()
        if self._is_open and self._checksums is not None:
            self._guarded(self._checksums.end_step, self._step)
        self._close_session(error)
        if self._checksums is not None:
            kept = f"kept checksums of {counted(self._checksums.count, 'step')} at {self._asked.folder}"
            self._outcome.lines.append(f"torchparity: {kept}; next: torchparity compare {self._asked.folder} BASELINE")

    def _close_session(self, error: BaseException | None) -> None:
        with self._outcome.catching_output():
            failed = attempted(lambda: self._session.close(error))
        if isinstance(failed, Exception):
            self._outcome.failures.append(_sentence(failed))

    def _passed_back(self, loss: object) -> None:
        if self._checksums is not None and not self._is_over:
            self._guarded(self._checksums.see_loss, loss)

    def _called(self, module: nn.Module) -> nn.Module | None:
        """Take a module that is called, or what is around it, for the model; return whose calls to watch."""
        watched = attempted(lambda: self._model_of(module))
        if isinstance(watched, Exception):
            self._fail(watched)
            return module
        return watched

    def _model_of(self, called: nn.Module) -> nn.Module | None:
        if next(called.parameters(), None) is None:
            return None
        model = outermost(called) if self._asked.model is None else named(self._asked.model, called)
        if model is None:
            return None
        self._model, self._outcome.has_model = model, True
        self._guarded(self._session.see_model, model)
        if self._checksums is not None:
            self._guarded(self._checksums.see_model, model)
        return called if any(each is called for each in model.modules()) else model

    def _guarded(self, work: Callable[..., Any], *arguments: Any) -> None:
        failed = attempted(lambda: work(*arguments))
        if isinstance(failed, Exception):
            self._fail(failed)

    def _fail(self, error: Exception) -> None:
        self._outcome.failures.append(_sentence(error))
        self.close(None)


def _sentence(error: Exception) -> str:
    if isinstance(error, ParityError):
        return str(error)
    return f"the recording ended by a fault of torchparity, please report it: {type(error).__name__}: {text_of(error)}."
