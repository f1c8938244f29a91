"""`dump_enable`: a flag in config.json that switches recording on and off while the training runs."""

from __future__ import annotations

import logging
from pathlib import Path

from torchparity.config import read_settings
from torchparity.errors import ConfigError

_log = logging.getLogger("torchparity")


class DumpEnable:
    """Reads the flag again at every start; of the other fields a change has no effect."""

    def __init__(self, is_on: bool | None, path: Path | None) -> None:
        self._is_on, self._path = is_on, path
        self._has_complained = False
        self._was_on = self._was_asked = False

    def is_on(self) -> bool:
        """Return the flag as the file has it now; where the file cannot be read or lost it, as it was."""
        if self._is_on is None:  # the field was absent from the beginning: there is no switch
            return True
        if self._path is not None:
            self._is_on = self._read(self._path, self._is_on)
        self._was_asked, self._was_on = True, self._was_on or self._is_on
        return self._is_on

    def sentences(self) -> list[str]:
        """Return what to say where nothing was recorded because of it."""
        return ["dump_enable was off at every start."] if self._was_asked and not self._was_on else []

    def _read(self, path: Path, before: bool) -> bool:
        problem = ""
        try:
            is_on = read_settings(path).get("dump_enable", before)
        except ConfigError as error:  # somebody is just writing it
            is_on, problem = before, str(error)
        if not isinstance(is_on, bool):
            is_on, problem = before, f"dump_enable in {path} is {is_on!r}; it must be true or false."
        if problem and not self._has_complained:
            self._has_complained = True
            _log.warning("torchparity: %s Recording stays %s.", problem, "on" if before else "off")
        return bool(is_on)
