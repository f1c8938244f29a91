"""The command line: one file per command, each with `add_arguments` and `run`.

The first line of a command's docstring is its help text. Commands import what they need
when they run, so that help appears at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from itertools import takewhile
from pathlib import Path
from types import ModuleType

from torchparity.cli.terminal.output import forget_stdout
from torchparity.cli.terminal.parser import Parser
from torchparity.errors import ConfigError, InternalError, ParityError, RunWriteError, StoppedError, nearest
from torchparity.text import printable
from torchparity.version import __version__
from torchparity.whole_file import with_home


def command_names() -> list[str]:
    """Return the commands: one for each file of this folder."""
    return sorted(file.stem for file in Path(__file__).parent.glob("[!_]*.py"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code.

    0: success, also of help; 1: the runs differ; 2: wrong usage or unreadable input; 3: a fault of torchparity;
    130: interrupted from the keyboard.
    """
    code = 0
    try:
        words = list(sys.argv[1:] if arguments is None else arguments)
        for stream in () if _is_of_a_script(words) else (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")  # a name may hold what the terminal cannot show
        code = _run(words)
        if sys.stdout is not None and not _is_of_a_script(words):
            sys.stdout.flush()
        return code
    except ParityError as error:
        return _fail(error)
    except BrokenPipeError:
        forget_stdout()  # the reader of our output has closed it
        return code
    except OSError as error:  # a full disk behind ">"
        forget_stdout()
        return _fail(RunWriteError(error.filename or "the output", error.strerror or str(error)))
    except KeyboardInterrupt:
        return _fail(StoppedError())
    except Exception as error:  # noqa: BLE001 - a crash must not exit with 1, which means "the runs differ"
        import traceback

        traceback.print_exc()
        return _fail(InternalError(f"internal error, please report it with the lines above: {error!r}."))


def _run(words: list[str]) -> int:
    commands = {name: import_module(f"torchparity.cli.{name}") for name in _commands_to_load(words)}
    parser, of_command = _parsers(commands)
    if not words:
        parser.print_help()
        return 0
    words, of_the_script = _own_words(words, commands, of_command)
    _refuse_mistyped(words, of_command)
    try:
        options, rest = parser.parse_known_args(words)
    except SystemExit as finished:  # argparse ends the process for --help and --version
        return finished.code if isinstance(finished.code, int) else 2
    # argparse does not assign an optional positional argument that comes after an option.
    if len(rest) == 1 and not rest[0].startswith("-") and getattr(options, "name", "") is None:
        options.name = rest.pop()
    if rest:
        raise ConfigError(f"{options.command} has no use for {rest[0]!r}; see torchparity {options.command} --help.")
    if of_the_script:
        options.script = of_the_script
    _expand_users(options)
    code: int = commands[options.command].run(options)
    return code


def _expand_users(options: argparse.Namespace) -> None:
    """Put the folder of a user in place of `~`, which a shell leaves in `--output_path=~/results` and in quotes."""
    for name, value in vars(options).items():
        if isinstance(value, Path):
            setattr(options, name, with_home(value))


def _commands_to_load(words: list[str]) -> list[str]:
    """Return the command that is asked for, or all of them where help or a mistake must list them."""
    names, start = command_names(), _place_of_command(words)
    if start is None or words[start] not in names or {"-h", "--help"} & set(words[:start]):
        return names
    return [words[start]]


def _is_of_a_script(words: list[str]) -> bool:
    """Tell whether the command runs a program of the user's, to whom the output belongs."""
    start = _place_of_command(words)
    return start is not None and words[start] == "run"


def _own_words(
    words: list[str], commands: Mapping[str, ModuleType], of_command: Mapping[str, argparse.ArgumentParser]
) -> tuple[list[str], list[str]]:
    """Divide a command line into the words for us and those of a script with its own options."""
    start = _place_of_command(words)
    if start is None or not _is_of_a_script(words):
        return words, []
    name = words[start]
    end = start + 1 + commands[name].own_words(words[start + 1 :], of_command[name])
    return words[:end], words[end:]


def _refuse_mistyped(words: list[str], of_command: Mapping[str, argparse.ArgumentParser]) -> None:
    """Raise `ConfigError` for a command or a long option that does not exist, with the nearest one that does."""
    start = _place_of_command(words)
    if start is None:
        return
    command = words[start]
    if command not in of_command:
        _refuse_task(command)
        there_are = ", ".join(of_command)
        raise ConfigError(f"no command {command!r}.{nearest(command, of_command)} There are: {there_are}.")
    options = list(of_command[command]._option_string_actions)
    before_values = takewhile(lambda word: word != "--", words[start + 1 :])
    for option in (word.partition("=")[0] for word in before_values if word.startswith("--")):
        if not any(whole.startswith(option) for whole in options):  # argparse takes abbreviations
            hint = nearest(option, options)
            what_to_do = f".{hint}" if hint else f"; see torchparity {command} --help."
            raise ConfigError(f"{command} has no option {option!r}{what_to_do}")


def _refuse_task(command: str) -> None:
    """Raise `ConfigError` where a command is named that is a task of `run`."""
    from torchparity.cli.run import TASKS

    if command in TASKS:
        right = f"torchparity run --task {command} SCRIPT"
        raise ConfigError(f"no command {command!r}, which is a task of run: {right}.")


def _place_of_command(words: list[str]) -> int | None:
    """Return the index of the first word that is neither an option nor the value of `-f`."""
    is_value = False
    for index, word in enumerate(words):
        if not is_value and not word.startswith("-"):
            return index
        is_value = word in ("-f", "--framework")
    return None


def _fail(error: ParityError) -> int:
    print(f"torchparity: {printable(str(error))}", file=sys.stderr)
    return error.exit_code


def _parsers(
    commands: dict[str, ModuleType],
) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of the whole command line, and those of the commands by name."""
    parser = Parser(
        prog="torchparity",
        description="Find the operator that makes two PyTorch runs disagree.",
        epilog="Exit codes: 0 success, 1 the runs differ, 2 wrong usage or unreadable input, 3 a fault of torchparity.",
    )
    parser.add_argument("--version", action="version", version=f"torchparity {__version__}")
    parser.add_argument(
        "-f", "--framework", choices=["pytorch"], help="accepted for msprobe's command lines; there is one"
    )
    # argparse would format a usage to find the program's name.
    added = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, prog="torchparity")
    of_command: dict[str, argparse.ArgumentParser] = {}
    for name, module in commands.items():
        summary = (module.__doc__ or "").splitlines()[0].partition(": ")[2]
        command = added.add_parser(name, help=summary, description=module.__doc__)
        module.add_arguments(command)
        of_command[name] = command
    return parser, of_command
