"""The file that `torchparity run --log-file` writes: nothing that goes wrong with it reaches the script."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path

from torchparity.errors import ConfigError, RunWriteError
from torchparity.text import counted
from torchparity.whole_file import reason_of


class LogFile(logging.FileHandler):
    """A line for each message; those that cannot be written are counted. Each of several ranks has a file."""

    def __init__(self, asked: Path, script: str) -> None:
        path = _of_this_rank(asked)
        self._is_new = not path.exists()
        with suppress(OSError):
            if path.samefile(script):
                raise ConfigError(
                    f"--log-file {asked} is the script itself, which would be overwritten; name another file."
                )
        self._asked, self._lost, self._reason = asked, 0, ""
        try:
            super().__init__(path, mode="a", encoding="utf-8")
        except OSError as error:
            raise RunWriteError(path, reason_of(error)) from None
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))

    def begin(self) -> None:
        """Empty the file: nothing has refused the recording."""
        if self.stream is not None:
            with suppress(OSError):  # a device, or a pipe
                self.stream.truncate(0)

    def discard(self) -> None:
        """Leave no file where none was: the recording is refused."""
        self.close()
        if self._is_new:
            with suppress(OSError):
                Path(self.baseFilename).unlink()

    def handleError(self, record: logging.LogRecord) -> None:
        """Count a line that could not be written."""
        error = sys.exc_info()[1]
        self._lost += 1
        self._reason = reason_of(error) if isinstance(error, OSError) else str(error)

    def close(self) -> None:
        with suppress(OSError):  # what was not written was counted
            super().close()

    def lost_sentences(self) -> list[str]:
        """Return what to say of lines that could not be written."""
        if not self._lost:
            return []
        return [f"{counted(self._lost, 'line')} could not be written to {self._asked} ({self._reason})"]


def _of_this_rank(path: Path) -> Path:
    rank = os.environ.get("RANK", "")
    if path.exists() and not path.is_file():  # /dev/stderr, say
        return path
    is_one_of_many = os.environ.get("WORLD_SIZE", "1") not in ("", "1") and rank.isdecimal()
    return path.with_stem(f"{path.stem}.rank{rank}") if is_one_of_many else path
