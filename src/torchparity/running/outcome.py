"""The outcome of a recording, told when the script is over: its output is nobody's but its own until then."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field


@dataclass
class Outcome:
    """The outcome of a recording, as far as it is known."""

    lines: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    closing: list[str] = field(default_factory=list)  # lines about what there is in the end
    steps: int = 0
    has_torch: bool = False
    has_model: bool = False
    checksums: int = 0
    called_classes: list[str] = field(default_factory=list)

    @contextmanager
    def catching_output(self) -> Iterator[None]:
        """Keep what the recording prints for the end."""
        caught = io.StringIO()
        try:
            with redirect_stdout(caught):
                yield
        finally:
            self.closing += caught.getvalue().splitlines()

    def tell(self, problems: Sequence[str], ended_after: int | None) -> None:
        """Print everything to stderr, what went wrong before what there is; the script was ended after a step."""
        sentences = [f"torchparity: {sentence}" for sentence in (*self.failures, *problems)]
        lines = [*self.lines, *sentences, *self.closing]
        if ended_after is not None:
            lines.append(f"torchparity: the script was ended after step {ended_after}, as --stop-after asks.")
        with suppress(OSError, ValueError, AttributeError):  # nobody reads it, or the script has closed it
            print(*(f"{line}\n" for line in lines), sep="", end="", file=sys.stderr, flush=True)  # noqa: T201


class Keeping(logging.Handler):
    """Keeps what torchparity logs for the end; a script may have sent all logs to its stdout."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(logging.WARNING)
        self._outcome = outcome
        self._logger = logging.getLogger("torchparity")

    def attach(self) -> None:
        self._logger.addHandler(self)
        self._logger.propagate = False

    def detach(self) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = True
        self._logger.disabled = False  # a script that configures logging switches off the loggers it does not know

    def emit(self, record: logging.LogRecord) -> None:
        self._outcome.lines.append(record.getMessage())
