"""Runs a script under a recording; its exit code and its failures pass through."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from torchparity.errors import ParityError
from torchparity.running.asked import Asked
from torchparity.running.outcome import Keeping, LastStepDone, Outcome
from torchparity.running.script import Script, show_failure
from torchparity.running.torch_import import TorchImport

if TYPE_CHECKING:
    from torchparity.running.script_run import ScriptRun

NOTHING_RECORDED = 2
_INTERRUPTED = 130


def run_script(script: Script, asked: Asked) -> int:
    """Run a script and record it; return its exit code, or 2 where it succeeded and nothing was recorded.

    `SystemExit` passes through with whatever the script gave it.
    """
    config = asked.config()
    asked.make_room()
    outcome = Outcome()
    started: list[ScriptRun] = []

    def record() -> None:
        from torchparity.running.script_run import ScriptRun

        outcome.has_torch = True
        try:
            started.append(ScriptRun(asked, outcome))
        except ParityError as problem:
            outcome.failures.append(str(problem))
        else:
            started[0].attach()

    process, logs = os.getpid(), Keeping(outcome)
    logs.attach()
    TorchImport(record).attach()
    error: BaseException | None = None
    try:
        script.run()
    except BaseException as raised:  # noqa: BLE001 - whatever it is, it is the script's and passes through below
        error = raised
    if os.getpid() != process:  # a child that the script forked came to its end here
        return _exit_code(error)
    for recording in started:
        recording.close(None if isinstance(error, LastStepDone) else error)
    logs.detach()
    code = _exit_code(error)
    problem = _problem(outcome, asked, config.level)
    outcome.lines += [f"torchparity: {sentence}" for sentence in (*outcome.failures, *problem)]
    if isinstance(error, LastStepDone):
        outcome.lines.append(f"torchparity: the script was ended after step {error.step}, as --stop-after asks.")
    outcome.tell()
    return code or (NOTHING_RECORDED if outcome.failures or problem else 0)


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


def _problem(outcome: Outcome, asked: Asked, level: str) -> list[str]:
    """Return why there is nothing, or not what was asked for."""
    if outcome.failures:
        return []
    if not outcome.has_torch:
        return ["nothing was recorded: the script never imported torch."]
    if not outcome.has_model and asked.model is not None:
        return [f"the script has no module {asked.model!r} that is called; --model takes a variable of it or a class."]
    if not outcome.steps:
        return [
            "nothing was recorded: no step came, neither a batch of a DataLoader nor optimizer.step, backward or a "
            "call of a model; docs/run.md says what a step is, and torchparity.capture records what you put inside."
        ]
    if not outcome.has_model and asked.checksum_every is not None:
        return ["no checksum was kept: the script called no module with parameters; name it with --model."]
    if not outcome.has_model and level != "L1":
        return [
            f"no model was found for level {level}: the script called no module with parameters; "
            "name it with --model, or use --level L1, which records calls of functions alone."
        ]
    return []
