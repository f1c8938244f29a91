"""argparse with mistakes answered in one sentence, and headings of help as they are written."""

from __future__ import annotations

import argparse
from typing import NoReturn

from rich_argparse import RawDescriptionRichHelpFormatter

from torchparity.errors import ConfigError, nearest


def _heading(text: str) -> str:
    return text[:1].upper() + text[1:]


class Help(RawDescriptionRichHelpFormatter):
    """Help whose headings keep the names of options and files."""

    group_name_formatter = _heading


class Parser(argparse.ArgumentParser):
    """A parser that raises `ConfigError` where argparse prints its usage and ends the process."""

    def error(self, message: str) -> NoReturn:
        """Raise the message of a mistake as one sentence."""
        raise ConfigError(f"{self._command}{message.removeprefix('argument ')}; see {self.prog} --help.")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            option, choices = action.option_strings[-1] if action.option_strings else action.dest, list(action.choices)
            raise ConfigError(
                f"{self._command}{option} is {value!r}; it must be one of {', '.join(choices)}."
                f"{nearest(str(value), choices)}"
            )

    @property
    def _command(self) -> str:
        command = self.prog.partition(" ")[2]
        return f"{command}: " if command else ""
