"""The outcome of a recording, told when the script is over: its output is nobody's but its own until then."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field

from torchparity.running.log_file import LogFile

_OWN = "torchparity: "


@dataclass
class Outcome:
    """The outcome of a recording, as far as it is known."""

    lines: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)  # lines of the recording itself
    closing: list[str] = field(default_factory=list)  # lines about what there is besides
    steps: int = 0
    has_torch: bool = False
    has_model: bool = False
    checksums: int = 0
    has_checked_nothing: bool = False  # the recording's own line says why
    called_classes: list[str] = field(default_factory=list)

    @contextmanager
    def catching_output(self) -> Iterator[None]:
        """Keep what the recording prints for the end."""
        caught = io.StringIO()
        try:
            with redirect_stdout(caught):
                yield
        finally:
            self.recorded += caught.getvalue().splitlines()

    def explain_records(self, sentence: str) -> None:
        """Put a sentence in front of the line that says what was recorded."""
        self.recorded = [f"{_OWN}{sentence}; {line.removeprefix(_OWN)}" for line in self.recorded]

    def tell_now(self, sentences: Sequence[str]) -> None:
        """Print what would come too late when the script is over."""
        _print([f"{_OWN}{sentence}" for sentence in sentences])

    def tell(self, problems: Sequence[str], ended_after: int | None) -> None:
        """Print everything to stderr, what went wrong before what there is; the script was ended after a step."""
        sentences = [f"{_OWN}{sentence}" for sentence in (*self.failures, *problems)]
        lines = [*self.lines, *sentences, *self.recorded, *self.closing]
        if ended_after is not None:
            lines.append(f"{_OWN}the script was ended after step {ended_after}, as --stop-after asks.")
        _print(lines)


def _print(lines: Sequence[str]) -> None:
    if is_one_of_several_ranks():
        lines = [line.replace(_OWN, f"{_OWN}rank {os.environ.get('RANK', '0')}: ", 1) for line in lines]
    with suppress(OSError, ValueError, AttributeError):  # nobody reads it, or the script has closed it
        print(*(f"{line}\n" for line in lines), sep="", end="", file=sys.stderr, flush=True)  # noqa: T201


def is_one_of_several_ranks() -> bool:
    """Tell whether torchrun started other processes of this script too."""
    return os.environ.get("WORLD_SIZE", "1") not in ("", "1")


class _StaysOn(logging.Logger):
    """A logger that a script cannot switch off: one that configures logging does so to all that it does not know.

    What it hands on is what its handlers take.
    """

    disabled = property(lambda self: False, lambda self, value: None)

    def isEnabledFor(self, level: int) -> bool:
        return level >= max(logging.INFO, min([handler.level for handler in self.handlers], default=logging.WARNING))


class Keeping(logging.Handler):
    """Keeps the warnings that torchparity logs for the end; a script may have sent all logs to its stdout.

    All that it logs goes to a `file`, where one is given.
    """

    def __init__(self, outcome: Outcome, file: LogFile | None) -> None:
        super().__init__(logging.WARNING)
        self._outcome, self._file = outcome, file
        self._logger = logging.getLogger("torchparity")

    def attach(self) -> None:
        self._kind = type(self._logger)
        self._logger.__class__ = _StaysOn
        self._logger.addHandler(self)
        self._logger.propagate = False
        if self._file is not None:
            self._logger.addHandler(self._file)
            self._logger.setLevel(logging.INFO)

    def detach(self) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = True
        if self._file is not None:
            self._logger.removeHandler(self._file)
            self._logger.setLevel(logging.NOTSET)
            self._file.close()
            self._outcome.lines += [f"{_OWN}{sentence}" for sentence in self._file.lost_sentences()]
        self._logger.__class__ = self._kind

    def emit(self, record: logging.LogRecord) -> None:
        self._outcome.lines.append(record.getMessage())
