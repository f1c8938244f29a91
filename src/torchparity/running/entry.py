"""Runs a script under a recording; its exit code and its failures pass through."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from torchparity.config import CaptureConfig
from torchparity.errors import ConfigError, ParityError
from torchparity.running.asked import Asked
from torchparity.running.log_file import LogFile
from torchparity.running.outcome import Keeping, Outcome, is_one_of_several_ranks
from torchparity.running.script import Script, show_failure
from torchparity.running.stopping import NamesRefused, Stopping
from torchparity.running.threads import ScriptThreads
from torchparity.running.torch_import import TorchImport

if TYPE_CHECKING:
    from torchparity.running.script_run import ScriptRun

NOTHING_RECORDED = 2
_INTERRUPTED = 130
_TASKS_WITHOUT_STEPS = ("overflow_check", "free_benchmark")  # which write what they find, and maybe nothing
_FUNCTIONS_ALONE = "the script called no module with parameters, so these are calls of functions alone"


def run_script(script: Script, asked: Asked) -> int:
    """Run a script and record it; return its exit code, or 2 where it succeeded and nothing was recorded.

    `SystemExit` passes through with whatever the script gave it.
    """
    asked.config()  # raises for what cannot work
    path = asked.log_file()
    log = None if path is None else LogFile(path, script.file)
    try:
        asked.make_room()
    except ParityError:
        if log is not None:
            log.discard()
        raise
    if log is not None:
        log.begin()
    had_folder = asked.folder.exists()
    outcome, stopping, threads = Outcome(), Stopping(), ScriptThreads()
    started: list[ScriptRun] = []
    process, logs = os.getpid(), Keeping(outcome, log)
    logs.attach()
    if asked.stop_after:
        stopping.attach()
    TorchImport(lambda: started.extend(_begin(asked, outcome, stopping))).attach()
    error = stopping.run(script.run)
    code = _exit_code(error)
    if os.getpid() != process:  # a child that the script forked came to its end here
        return code
    if stopping.ended_after is None:
        error = stopping.run(threads.wait) or error  # as python does when a script has come to its end
    stopping.detach()
    for recording in started:
        recording.close(None if stopping.ended_after is not None else error)
        recording.detach()
    logs.detach()
    is_in_vain = _tell(outcome, asked, code, stopping.ended_after, had_folder=had_folder)
    return code or (NOTHING_RECORDED if is_in_vain else 0)


def _begin(asked: Asked, outcome: Outcome, stopping: Stopping) -> Iterator[ScriptRun]:
    """Record the script from here on, where it imports torch; yield nothing where that cannot be."""
    from torchparity.running.script_run import ScriptRun

    outcome.has_torch = True
    try:
        recording = ScriptRun(asked, outcome, stopping)
        outcome.tell_now(recording.check_names())
    except ConfigError as problem:
        outcome.failures.append(str(problem))
        if threading.current_thread() is threading.main_thread():  # another would end alone, and be waited for
            raise NamesRefused from None  # said after hours of training it would be of no use
    except ParityError as problem:
        outcome.failures.append(str(problem))
    else:
        yield recording
        recording.attach()


def _tell(outcome: Outcome, asked: Asked, code: int, ended_after: int | None, *, had_folder: bool) -> bool:
    """Print what came of the recording; return whether nothing, or not what was asked for."""
    config = asked.config()
    problem = [] if code else _problem(outcome, asked, config)
    is_empty = not asked.has_recorded()
    if is_empty and problem:
        outcome.recorded.clear()  # the problem says it
        if not had_folder:
            _remove_empty(asked.folder)
    elif not is_empty and not outcome.has_model and asked.model is None and config.level == "mix":
        outcome.explain_records(_FUNCTIONS_ALONE)
    outcome.tell(problem, ended_after)
    lacks_steps = bool(config.step) and is_empty and config.task not in _TASKS_WITHOUT_STEPS
    # Of several ranks one that fails would end the others, which may have checked something.
    has_checked_nothing = outcome.has_checked_nothing and not is_one_of_several_ranks()
    return bool(outcome.failures or problem or lacks_steps or has_checked_nothing)


def run_unrecorded(script: Script) -> int:
    """Run a script and record nothing of it; return its exit code."""
    return _exit_code(Stopping().run(script.run))


def _remove_empty(folder: Path) -> None:
    """Remove the folder of a run that has nothing, unless another rank may be about to write into it."""
    if not is_one_of_several_ranks():
        with suppress(OSError):  # there are checksums in it, or there is none
            folder.rmdir()


def _exit_code(error: BaseException | None) -> int:
    """Return what `python` would exit with, after showing a failure as it would."""
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)  # noqa: T201 - as `python` does
        return 1
    if error is not None:
        show_failure(error)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _problem(outcome: Outcome, asked: Asked, config: CaptureConfig) -> list[str]:
    """Return why there is nothing, or not what was asked for."""
    if outcome.failures:
        return []
    done = "checked" if config.task == "free_benchmark" else "recorded"
    if not outcome.has_torch:
        return [f"nothing was {done}: the script never imported torch."]
    if not outcome.has_model and asked.model is not None:
        called = f"; it calls {', '.join(outcome.called_classes)}" if outcome.called_classes else ""
        nothing = f"the script calls no module {asked.model!r}{called}"
        return [f"{nothing}; --model takes a variable of the script or a class."]
    if not outcome.steps:
        return [
            f"nothing was {done}: no step came, neither a batch of a DataLoader nor optimizer.step, backward or a "
            "call of a model; docs/run.md says what a step is, and torchparity.capture records what you put inside."
        ]
    if not outcome.checksums and asked.checksum_every is not None:
        return ["no checksum was kept: the script has no optimizer and called no module with parameters."]
    if config.step and min(config.step) >= outcome.steps:
        came = "step 0 alone" if outcome.steps == 1 else f"steps 0 to {outcome.steps - 1}"
        return [f"no step was {done}: --steps is {asked.steps}, and the script has {came}; ask for one of these."]
    if not outcome.has_model and asked.records and config.level == "L0":
        return [
            f"no model was found for level {config.level}: the script called no module with parameters; "
            "name it with --model, or use --level L1, which records calls of functions alone."
        ]
    return []
