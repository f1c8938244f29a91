"""The recording of a script: a session that is begun and ended where the rule of steps says."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from torch import nn
from torch.optim.optimizer import Optimizer

from torchparity.calls import attempted, text_of
from torchparity.errors import ParityError
from torchparity.recording.process import rank_of_process
from torchparity.recording.session import Session
from torchparity.running.asked import Asked
from torchparity.running.checksums import Checksums
from torchparity.running.events import Events
from torchparity.running.made_objects import MadeObjects
from torchparity.running.model import ModelSearch
from torchparity.running.outcome import Outcome
from torchparity.running.step_rule import StepRule
from torchparity.running.stopping import Stopping
from torchparity.storage import remove_part
from torchparity.text import counted

_log = logging.getLogger("torchparity")
_NOT_ENDED = (
    "--stop-after did not end the script: it called no backward and no optimizer.step, "
    "and calls of a model alone may be an evaluation before the training."
)


class ScriptRun:
    """Records the steps of the script that runs in this process.

    Whatever fails in here ends the recording and never the script.
    """

    def __init__(self, asked: Asked, outcome: Outcome, stopping: Stopping) -> None:
        self._asked, self._outcome, self._stopping = asked, outcome, stopping
        self._config = asked.config()
        self._session = Session(self._config)
        self._last = max(self._config.step, default=None)
        self._made = MadeObjects()
        self._search = ModelSearch(asked.model, self._made)
        self._no_model = nn.Module()  # stands for the model as long as that is not known
        self._checksums = self._new_checksums()
        self._rule = StepRule(self)
        self._events = Events(self._rule, self)
        self._step = 0
        self._not_taken: list[str] = []  # models
        self._is_open = False
        self._is_last_step_done = False
        self._is_over = False

    def check_names(self) -> list[str]:
        """Raise for names that no call can have; return sentences about doubtful ones."""
        return self._session.check_names()

    def attach(self) -> None:
        self._made.attach()
        self._events.attach()

    def detach(self) -> None:
        """See nothing of the script any more."""
        self._made.detach()
        self._events.detach()

    def restart(self) -> None:
        """Forget the steps so far, on the disk too: they were before the training."""
        if self._is_over:
            return
        self._guarded(self._drop_session)
        self._checksums = self._new_checksums()
        self._step = self._outcome.steps = 0
        self._is_open = self._is_last_step_done = False

    def _drop_session(self) -> None:
        with self._outcome.catching_output():
            self._session.discard()
        self._outcome.recorded.clear()
        _log.info("torchparity: the calls so far were before the training, which counts from step 0; they do not count")
        # Tables of task free_benchmark may have rows of an earlier training, which stay.
        replaces = self._config.task != "free_benchmark"
        self._session = Session(msgspec.structs.replace(self._config, overwrite=replaces))
        self._session.check_names()  # of which everything was said

    def begin(self) -> None:
        """Begin a step, or go on with one that was paused."""
        if self._is_over or self._is_last_step_done:
            return
        if self._checksums is not None and not self._is_open:
            self._guarded(self._checksums.begin_step, self._search.model)
        self._is_open = True
        if self._asked.records:
            model = self._search.model
            self._guarded(self._session.start, self._no_model if model is None else model)

    def pause(self) -> None:
        if not self._is_over and not self._is_last_step_done and self._asked.records:
            self._guarded(self._session.stop)

    def end(self) -> None:
        """End a step; after the last one that is wanted the recording too, and where that was asked for the script."""
        if not self._is_over and not self._is_last_step_done:
            self._end_step()
        if self._is_last_step_done and self._asked.stop_after and self._rule.is_training:
            self.close(None)
            self._stopping.stop(self._step - 1)

    def _end_step(self) -> None:
        self._is_open = False
        self._outcome.steps += 1
        if self._asked.records:
            self._guarded(self._session.step)
        if self._checksums is not None:
            self._guarded(self._checksums.end_step, self._step, self._search.model)
        if self._step == 0 and self._asked.records and self._config.level != "L1":
            self._guarded(self._note_models)  # and not at the end, when they are gone
        self._step += 1
        if self._last is not None and self._step > self._last:
            self._end_wanted_steps()

    def _note_models(self) -> None:
        self._not_taken = self._search.not_taken()

    def _end_wanted_steps(self) -> None:
        """End the recording of calls; the rest of a training has checksums, and an evaluation may come before one."""
        self._close_session(None)
        if self._checksums is None:
            self._is_last_step_done = True
            if self._search.is_settled and self._rule.is_training and not self._asked.stop_after:
                self.close(None)
        elif self._asked.stop_after:
            self._is_last_step_done = True

    def close(self, error: BaseException | None) -> None:
        """End the recording; `error` ended the script."""
        if self._is_over:
            return
        self._is_over = True
        is_done = error is None or isinstance(error, SystemExit)
        if self._is_open and is_done and self._rule.is_behind_training:
            self._is_open = False
            self._guarded(self._forget_step)
        self._outcome.steps += self._is_open
        if not self._asked.stop_after:  # or a script that catches our SystemExit would go on
            self.detach()
        if self._is_open and self._checksums is not None and not self._rule.is_empty:
            self._guarded(self._checksums.end_step, self._step, self._search.model)
        self._close_session(error)
        self._outcome.called_classes = self._search.called_classes()
        if self._checksums is not None:
            self._outcome.checksums = self._checksums.count
            kept = f"kept checksums of {counted(self._checksums.count, 'step')} at {self._asked.folder}"
            next_words = f"; next: torchparity compare {self._asked.folder} BASELINE" if self._checksums.count else ""
            self._outcome.closing.append(f"torchparity: {kept}{next_words}")
        if self._not_taken:
            models = f"the model is {self._search.model_class}; the script also trains"
            self._outcome.closing.append(f"torchparity: {models} {', '.join(self._not_taken)}.")
        if self._is_last_step_done and self._asked.stop_after and not self._rule.is_training:
            self._outcome.closing.append(f"torchparity: {_NOT_ENDED}")

    def _forget_step(self) -> None:
        """Keep nothing of the step in hand; an overflow is worth telling wherever it is."""
        if self._asked.records and self._config.task != "overflow_check":
            self._session.forget_step()
            self._close_session(None)
            part = self._asked.folder / f"step{self._step}" / f"rank{rank_of_process()}"
            with suppress(FileNotFoundError, NotADirectoryError):  # another rank removes it too, or a fix made none
                remove_part(part, self._asked.folder)

    def _close_session(self, error: BaseException | None) -> None:
        with self._outcome.catching_output():
            failed = attempted(lambda: self._session.close(error))
        self._outcome.has_checked_nothing = self._session.has_checked_nothing
        if isinstance(failed, Exception):
            self._outcome.failures.append(_sentence(failed))

    def passed_back(self, losses: object) -> None:
        if self._checksums is not None and not self._is_over:
            self._guarded(self._checksums.see_losses, self._step, losses)

    def optimizer_seen(self, optimizer: Optimizer) -> bool:
        """Note an optimizer; tell whether the modules that it trains can be called."""
        is_called = attempted(lambda: self._note(optimizer))
        if isinstance(is_called, Exception):
            self._fail(is_called)
            return True
        return is_called

    def _note(self, optimizer: Optimizer) -> bool:
        is_new = self._made.see_optimizer(optimizer)
        if is_new and not self._is_over and self._search.look_again(optimizer):
            self._events.watch_all()
        return self._made.is_called_by_forward(optimizer)

    def called(self, module: nn.Module, *, with_gradients: bool) -> nn.Module | None:
        """Take a module that is called, or what is around it, for the model; return whose calls to watch."""
        watched = attempted(lambda: self._look(module, with_gradients))
        if isinstance(watched, Exception):
            self._fail(watched)
            return None
        return watched

    def _look(self, called: nn.Module, with_gradients: bool) -> nn.Module | None:
        had_model = bool(self._search.model_class)
        if self._search.is_looking_again and not self._rule.is_between_steps:
            return None
        if self._is_over or not self._search.look(called, with_gradients=with_gradients):
            return None
        model = self._search.model
        if had_model:
            self._not_taken = []
            self._rule.model_replaced()
        if model is None:
            return None
        self._outcome.has_model = True
        self._guarded(self._session.see_model, model)
        watched = called if any(each is called for each in model.modules()) else model
        if self._search.is_settled:
            self._events.watch_alone(watched)
        return watched

    def _new_checksums(self) -> Checksums | None:
        asked = self._asked
        every = asked.checksum_every
        return None if every is None else Checksums(asked.folder, every, asked.command, self._made)

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
