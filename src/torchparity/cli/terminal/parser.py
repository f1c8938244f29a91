"""argparse with mistakes answered in one sentence, and help that is formatted by rich."""

from __future__ import annotations

import argparse
from typing import NoReturn

from torchparity.errors import ConfigError, nearest


def _plain(prog: str) -> argparse.HelpFormatter:
    """Return the formatter that argparse checks every argument with; a given width looks at no terminal."""
    return argparse.HelpFormatter(prog, width=80)


class Parser(argparse.ArgumentParser):
    """A parser that raises `ConfigError` where argparse prints its usage and ends the process."""

    def __init__(self, *, prog: str, description: str | None, epilog: str | None = None) -> None:
        super().__init__(prog=prog, description=description, epilog=epilog, formatter_class=_plain)

    def format_help(self) -> str:
        """Return the help; rich is loaded for it alone."""
        from torchparity.cli.terminal.help import Help

        self.formatter_class = Help
        return super().format_help()

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
