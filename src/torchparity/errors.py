"""Every exception torchparity raises on purpose.

ParityError                 exit code 2: the command line prints it as one sentence
├── ConfigError             a setting, argument or option that cannot be used, and what would work
├── RecordNameError         a text that is not the name of a record or an item
├── UnknownPluginError      a format, device or kernel that does not exist
├── MissingTorchError       torch is needed and not installed
├── SimulationError         the simulated NPU cannot be had here
│   └── MissingOperatorError an operator that the simulated NPU has no kernel for
├── EngineError             a cluster that cannot be reached, or cannot do the work
├── RecordingEndedError     no fault: enable_dataloader ends the training after the last step to record
├── RunError                something about a run folder
│   ├── RunNotFoundError    the path does not exist or holds no run
│   ├── RunExistsError      the path already holds a run
│   ├── NotRecordedError    the run has no such step, rank, record, item or tensor
│   ├── DamagedFileError    a file whose content is not what its format says
│   │   └── UnsafeFileError a file that asks its reader to run code or to leave its folder
│   └── RunWriteError       a file that cannot be written
├── StoppedError            exit code 130: Ctrl-C, and what was written before it
└── InternalError           exit code 3: a fault of torchparity
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

_LONGEST_QUOTE = 200
_MOST_COMPARED = 2000
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class ParityError(Exception):
    """Base class: the command line prints it as one sentence and exits with `exit_code`."""

    exit_code = 2


class ConfigError(ParityError):
    """A setting, an argument or an option of the command line that cannot be used."""


class RecordNameError(ParityError):
    """A text that is not the name of a record or an item."""


class UnknownPluginError(ParityError):
    """A format, device, kernel or perturbation that does not exist."""

    def __init__(self, kind: str, name: str, available: list[str]) -> None:
        self.kind, self.name, self.available = kind, name, available
        super().__init__(f"no {kind} named {name!r}.{nearest(name, available)} Available: {', '.join(available)}.")


class MissingTorchError(ParityError):
    """torch is needed and not installed."""

    def __init__(self, wanted_for: str) -> None:
        super().__init__(
            f"{wanted_for} needs torch, which is not installed here; `pip install torchparity[torch]` adds it."
        )


class SimulationError(ParityError):
    """The simulated NPU cannot be had here."""


class MissingOperatorError(SimulationError, NotImplementedError):
    """An operator that the simulated NPU has no kernel for."""

    def __init__(self, operator: str, *, cpu_has_it: bool) -> None:
        self.operator = operator
        advice = "NpuBehaviour(falls_back_to_cpu=True) uses the CPU's" if cpu_has_it else "neither does the CPU"
        super().__init__(f"the simulated NPU has no kernel for {operator}; {advice}.")


class EngineError(ParityError):
    """A cluster that cannot be reached, or cannot do the work."""


class RecordingEndedError(ParityError):
    """Raised by `enable_dataloader` to end the training after the last step to record; it is no fault."""

    def __init__(self, step: int) -> None:
        self.step = step
        super().__init__(f"step {step} was the last one to record; enable_dataloader ends the training with it.")


class RunError(ParityError):
    """Something about a run folder."""


class RunNotFoundError(RunError):
    """A path that does not exist or holds no run."""


class RunExistsError(RunError):
    """A path that already holds a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} already holds a run; choose another folder, or say --overwrite (overwrite=True).")


class NotRecordedError(RunError):
    """A step, rank, record, item or tensor that the run does not have."""

    def __init__(self, kind: str, wanted: str, available: Iterable[str], where: str) -> None:
        names = list(available)
        self.kind, self.wanted = kind, wanted
        super().__init__(f"{where} has no {kind} {wanted[:_LONGEST_QUOTE]!r}.{nearest(wanted, names)}{_some_of(names)}")


class DamagedFileError(RunError):
    """A file whose content is not what its format says."""

    def __init__(self, path: Path | str, problem: str) -> None:
        # Text from a damaged file may be megabytes long or span lines.
        self.path, self.problem = (
            path if isinstance(path, Path) else Path(path),
            " ".join(problem[: 2 * _LONGEST_QUOTE].split()),
        )
        super().__init__(f"{path}: {self.problem}.")


class UnsafeFileError(DamagedFileError):
    """A file that asks its reader to run code or to leave its folder."""


class RunWriteError(RunError):
    """A file that cannot be written: a full disk, a quota, a permission."""

    def __init__(self, path: Path | str, reason: str) -> None:
        self.path = Path(path)
        super().__init__(f"cannot write {path}: {reason}.")


class StoppedError(ParityError):
    """A command was interrupted from the keyboard; `written` are the whole files that it leaves, None: who knows."""

    exit_code = 130

    def __init__(self, written: Sequence[Path] | None = None) -> None:
        self.written = written
        files = f"; written before: {', '.join(map(str, written))}" if written else "; nothing was written"
        super().__init__(f"interrupted{'' if written is None else files}.")


class InternalError(ParityError):
    """A fault of torchparity itself."""

    exit_code = 3


def nearest(name: str, available: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the closest of `available`, or nothing."""
    from difflib import get_close_matches  # not loaded where nothing is wrong

    names = list(available)
    if len(names) > _MOST_COMPARED:  # comparing is slow, and most typing errors leave both ends right
        names = [each for each in names if each[:4] == name[:4] and each[-4:] == name[-4:]][:_MOST_COMPARED]
    guess = get_close_matches(name[:_LONGEST_QUOTE], names, n=1)
    return f" Did you mean {guess[0]!r}?" if guess else ""


def with_nearest_option(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Have a function answer a misspelt option with the nearest that there is."""
    from inspect import signature  # not loaded where no function is made so

    options = [name for name in signature(function).parameters if name != "self"]

    @wraps(function)
    def checked(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        for name in kwargs:
            if name not in options:
                hint = f"{nearest(name, options)} There are: {', '.join(options)}."
                raise ConfigError(f"{function.__name__} has no option {name!r}.{hint}")
        return function(*args, **kwargs)

    return checked


def _some_of(names: list[str], most: int = 8) -> str:
    if not names:
        return ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f" It has: {', '.join(name[:_LONGEST_QUOTE] for name in names[:most])}{more}."
