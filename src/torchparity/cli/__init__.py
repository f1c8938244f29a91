"""The command line: one file per command, each with `add_arguments` and `run`.

A command's first docstring line is its help text. Nothing heavy is imported before a
command runs, so that help appears at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType

from rich_argparse import RawDescriptionRichHelpFormatter

from torchparity.cli._output import forget_stdout
from torchparity.errors import InternalError, ParityError, RunWriteError
from torchparity.text import printable
from torchparity.version import __version__


def command_names() -> list[str]:
    return sorted(file.stem for file in Path(__file__).parent.glob("[!_]*.py"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 fine, 1 differences, 2 usage or bad input, 3 our fault."""
    code = 0
    try:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")  # a name may hold what the terminal cannot show
        code = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except ParityError as error:
        return _fail(error)
    except BrokenPipeError:
        forget_stdout()  # the reader of our output has seen enough
        return code
    except OSError as error:  # a full disk behind ">"
        forget_stdout()
        return _fail(RunWriteError(error.filename or "the output", error.strerror or str(error)))
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - a crash must not exit with 1, which means "the runs differ"
        import traceback

        traceback.print_exc()
        return _fail(InternalError(f"internal error, please report it with the lines above: {error!r}."))


def _run(arguments: Sequence[str] | None) -> int:
    commands: dict[str, ModuleType] = {name: import_module(f"torchparity.cli.{name}") for name in command_names()}
    parser = _parser(commands)
    try:
        options, rest = parser.parse_known_args(arguments)
    except SystemExit as finished:  # argparse ends the process for --help and for mistakes
        return finished.code if isinstance(finished.code, int) else 2
    # argparse loses a positional argument that may be left out when it comes after an option.
    if len(rest) == 1 and not rest[0].startswith("-") and getattr(options, "name", "") is None:
        options.name = rest.pop()
    if rest:
        print(f"torchparity: unrecognized arguments: {' '.join(rest)}", file=sys.stderr)
        return 2
    code: int = commands[options.command].run(options)
    return code


def _fail(error: ParityError) -> int:
    print(f"torchparity: {printable(str(error))}", file=sys.stderr)
    return error.exit_code


def _parser(commands: dict[str, ModuleType]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="torchparity",
        description="Find the operator that makes two PyTorch runs disagree.",
        formatter_class=RawDescriptionRichHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"torchparity {__version__}")
    parser.add_argument("-f", "--framework", choices=["pytorch"], help="accepted as msprobe has it; there is one")
    # argparse would make a formatter to find the program's name, which loads rich.
    added = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, prog="torchparity")
    for name, module in commands.items():
        summary = (module.__doc__ or "").splitlines()[0].partition(": ")[2]
        command = added.add_parser(
            name, help=summary, description=module.__doc__, formatter_class=RawDescriptionRichHelpFormatter
        )
        module.add_arguments(command)
    return parser
