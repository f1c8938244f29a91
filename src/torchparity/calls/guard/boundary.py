"""The boundary between our code and the user's training: no exception of ours crosses it.

Within it the dispatcher catches what one listener raises, so that it hides no other.
"""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

from torchparity.calls.guard.process import process_id

_log = logging.getLogger("torchparity")
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
Result = TypeVar("Result")


class Failures:
    """The failures of one listener or dispatcher: each kind is logged once and counted.

    `work` says what it does with a call, for the sentence that is logged.
    """

    def __init__(self, work: str = "record") -> None:
        self._work = work
        self._ever: Counter[str] = Counter()
        self._in_step: Counter[str] = Counter()

    def note(self, what: str, error: Exception) -> None:
        kind = f"{what}: {type(error).__name__}: {text_of(error)[:200]}"
        self._ever[kind] += 1
        self._in_step[kind] += 1
        if self._ever[kind] == 1:
            _log.warning("torchparity could not %s %s; training goes on", self._work, kind)

    def sentences(self) -> list[str]:
        """Return one sentence per kind of failure, for the end of the run."""
        return _sentences(self._ever)

    def sentences_of_step(self) -> list[str]:
        """Return those of what failed since the last time, for the readers of a step."""
        sentences = _sentences(self._in_step)
        self._in_step.clear()
        return sentences


class Boundary:
    """Runs our code in the middle of the user's: unseen by modes, out of the clock, and never raising."""

    def __init__(self, failures: Failures | None = None) -> None:
        self.failures = failures or Failures()
        self._process = process_id()
        self._is_closed = False
        self.spent = 0.0  # seconds in our own code, which are no part of what a call took

    def run(self, what: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return what `work(*arguments)` returns, or None where it failed. Torch functions inside are not recorded."""
        if self._is_closed or process_id() != self._process:
            return None  # a forked worker of a DataLoader inherits the interceptors, and must not write
        began = time.perf_counter()
        try:
            with torch._C.DisableTorchFunction():
                if torch._C._len_torch_dispatch_stack() == 0:
                    return work(*arguments)
                with _disable_current_modes():  # a user's own mode must not see what we compute
                    return work(*arguments)
        except Exception as error:  # noqa: BLE001 - the boundary: a recorder's fault must not stop a training
            note_or_raise(self.failures, what, error)
            return None
        finally:
            self.spent += time.perf_counter() - began

    def close(self) -> None:
        """Run nothing until `open`: what we launched would become part of a CUDA graph that is being captured."""
        self._is_closed = True

    def open(self) -> None:
        self._is_closed = False

    def belong_here(self) -> None:
        """Work in this process from now on: a forked one, in which the recording begins."""
        self._process = process_id()


class Outcome(Enum):
    """The outcome of work that has no result to give."""

    FAILED = auto()


FAILED = Outcome.FAILED


def guarded(failures: Failures, what: str, work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a listener's `work(*arguments)` returns, or FAILED: a fault of one listener hides no other."""
    try:
        return work(*arguments)
    except Exception as error:  # noqa: BLE001 - the boundary between listeners
        note_or_raise(failures, what, error)
        return FAILED


def note_or_raise(failures: Failures, what: str, error: Exception) -> None:
    """Count a failure of ours; raise again what a signal handler of the user's raised while our code ran."""
    if _is_of_a_signal_handler(error):
        raise error
    failures.note(what, error)


def text_of(error: BaseException) -> str:
    """Return an exception's text; a user's own may have none to give."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - it is the user's code that runs here
        return "an exception without a text"


def _sentences(failures: Counter[str]) -> list[str]:
    times = {kind: "once" if number == 1 else f"{number} times" for kind, number in failures.items()}
    return [f"{often} not recorded: {kind}" for kind, often in times.items()]


def _is_of_a_signal_handler(error: Exception) -> bool:
    """Tell whether a signal handler of the user's raised it, an alarm's time-out say, while our code ran.

    Python hands a handler the frame that it interrupted, which is one of those in the traceback; no other
    function that we call is given one of our frames.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in frames:
        if not frame.f_code.co_filename.startswith(_OURS):
            values = [
                part for value in frame.f_locals.values() for part in (value if type(value) is tuple else [value])
            ]
            if any(value is ours for value in values for ours in frames):
                return True
    return False


def attempted(work: Callable[..., Result], *arguments: Any) -> Result | Exception:
    """Return what `work(*arguments)` returns, or what it raised: compilers and drivers fail in ways nobody can list.

    What a signal handler of the user's raised meanwhile is raised on.
    """
    try:
        return work(*arguments)
    except Exception as error:  # the caller has another way
        if _is_of_a_signal_handler(error):
            raise
        return error
