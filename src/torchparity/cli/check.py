"""torchparity check: run every API of a run alone, against a reference that is closer to the truth.

torchparity check RUN                      on the accelerator, or on the CPU where there is none
torchparity check RUN/step0/rank0/dump.json -d cpu -o DIR
torchparity check RUN -n 4 -d 0 1          four processes on two devices
torchparity check --exhaustive exp,gelu    all 65,536 bf16 inputs of unary APIs
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchparity import plugins
from torchparity.errors import ConfigError, DamagedFileError, MissingTorchError, RunNotFoundError
from torchparity.text import counted, printable
from torchparity.whole_file import refuse_unwritable

if TYPE_CHECKING:
    from torchparity.check.entry import CheckOptions, CheckSummary
    from torchparity.check.results import WholeResult
    from torchparity.check.source import Named, Source

_MOST_SHOWN = 5
_MOST_PROCESSES = 64
_INTERRUPTED = 130
_MOST_NUMBERS = 10**6
_SECTIONS = ("run_ut", "acc_check")
_KEYS = ("white_list", "black_list", "error_data_path")
ERROR_DATA = Path("ut_error_data")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="run of level L1, its folder or dump.json")
    parser.add_argument("-api_info", "--api_info", type=Path, metavar="JSON", help="RUN, as msprobe spells it")
    parser.add_argument("--exhaustive", metavar="LIST", help="unary APIs to run on all 65,536 inputs, such as exp,gelu")
    parser.add_argument("--dtype", metavar="LIST", help="of --exhaustive: float16,bfloat16 (bfloat16)")
    add_common_arguments(parser)


def add_common_arguments(parser: ArgumentParser, *, processes: str = "1") -> None:
    """Add what `check` and `run_ut` share; `processes` is the default of -n."""
    parser.add_argument(
        "--step", metavar="LIST", help="steps to check whole: 3, 0,4-6 or all; default: each kind of call once"
    )
    parser.add_argument("--rank", metavar="LIST", help="ranks to check whole, likewise")
    parser.add_argument(
        *("-o", "-out_path", "--out_path"), type=Path, default=Path(), metavar="DIR", help="folder for the results (.)"
    )
    parser.add_argument(
        *("-d", "--device"), nargs="+", default=[], metavar="DEVICE", help="cpu, cuda:0, npu, or numbers such as 0 1"
    )
    parser.add_argument(
        *("-n", "--num_splits"),
        default=processes,
        metavar="N",
        help=f"processes, 1 to {_MOST_PROCESSES} ({processes})",
    )
    parser.add_argument("-j", "--jit_compile", action="store_true", help="compile operators on an NPU")
    parser.add_argument(
        "-f", "--filter_api", action="store_true", help="leave out calls that differ in nothing but their values"
    )
    parser.add_argument("-csv_path", "--csv_path", type=Path, metavar="FILE", help="result file to go on with")
    parser.add_argument(
        "-save_error_data",
        "--save_error_data",
        action="store_true",
        help=f"save what failed in {ERROR_DATA}, with a script that shows it",
    )
    parser.add_argument("--error_data_path", type=Path, metavar="DIR", help="folder for -save_error_data")
    parser.add_argument(
        "--white_list", default="", metavar="LIST", help="check these APIs alone, such as conv2d,linear"
    )
    parser.add_argument("--black_list", default="", metavar="LIST", help="do not check these APIs")
    parser.add_argument("-config", "--config", type=Path, metavar="JSON", help="config.json with the two lists")
    parser.add_argument(
        "--format", default="csv", metavar="LIST", help=f"tables to write, of {','.join(_formats())} (csv)"
    )
    parser.add_argument(
        "--fail-on", choices=["error", "warning", "never"], default="never", help="exit with 1 when an API is that bad"
    )


def run(options: Namespace) -> int:
    if options.exhaustive is not None:
        return _check_exhaustively(options)
    path = options.run or options.api_info
    if options.dtype is not None:
        raise ConfigError("--dtype is of --exhaustive; without it the dtypes are those of the run.")
    if options.run is not None and options.api_info is not None:
        raise ConfigError("check takes one run, as RUN or as -api_info; both are given.")
    if path is None:
        raise ConfigError("check needs a run: torchparity check RUN, or torchparity check --exhaustive exp.")
    need_torch()
    return check_source(source_named(path, options), options)


def source_named(path: Path, options: Namespace) -> Source:
    """Return what lies at a path, with the steps and ranks that the command line names."""
    from torchparity.check.source import source_at

    steps, ranks = named_numbers(options.step, "--step"), named_numbers(options.rank, "--rank")
    return source_at(path, steps=steps, ranks=ranks)


def _check_exhaustively(options: Namespace) -> int:
    if options.run is not None or options.api_info is not None:
        raise ConfigError("check takes a run or --exhaustive, not both; --exhaustive needs no run.")
    need_torch()
    from torchparity.cli.terminal.exhaustive import check_all_inputs

    is_kept = options.out_path != Path() or options.format != "csv"
    found = check_all_inputs(
        words(options.exhaustive),
        words(options.dtype or "bfloat16"),
        options.device[0] if options.device else None,
        options.out_path if is_kept else None,
        _formats_asked(options.format),
    )
    return int(bool(found & _failing(options)))


def _failing(options: Namespace) -> set[str]:
    """Return the statuses that the command is to exit with 1 for."""
    return {"error": {"error"}, "warning": {"error", "warning"}, "never": set[str]()}[options.fail_on]


def check_source(source: Source, options: Namespace) -> int:
    """Check what a source holds, print how it went, return the exit code."""
    from torchparity.check.entry import check_run
    from torchparity.check.results import read_whole
    from torchparity.cli.terminal.progress import progress

    if options.out_path.is_file():
        raise ConfigError(f"-o {options.out_path} is a file; name a folder for the results.")
    settings = asked(options, source)
    if settings.error_data is not None:
        refuse_unwritable(settings.error_data)
    with progress(rate=True) as show:
        summary = check_run(source, settings, show)
    _print(summary)
    written = read_whole(summary.files[0])
    _print_whole(written, summary)
    if summary.was_interrupted:
        return _INTERRUPTED
    unknown = written.unknown((*words(options.white_list), *_lists(options.config).get("white_list", ())))
    for sentence in unknown:
        print(f"torchparity: white list: {sentence}", file=sys.stderr)
    for sentence in written.misspelt(words(options.black_list)):
        print(f"torchparity: black list: {sentence}", file=sys.stderr)
    if unknown and set(written.counts) <= {"SKIP"}:
        return ConfigError.exit_code
    return int(any(written.counts[word] for word in _failing(options)))


def asked(options: Namespace, source: Source) -> CheckOptions:
    """Return what the command line asks for, with its config.json and what a collection left beside its files."""
    from torchparity.check.entry import CheckOptions
    from torchparity.check.selection import Selection

    listed = _lists(options.config)
    processes = whole_number(options.num_splits, "-n") or 0
    if not 0 < processes <= _MOST_PROCESSES:
        raise ConfigError(f"-n is {processes}; it must be from 1 to {_MOST_PROCESSES}.")
    return CheckOptions(
        devices=options.device,
        processes=processes,
        selection=Selection(
            white_list=(*words(options.white_list), *listed.get("white_list", ())),
            black_list=(*words(options.black_list), *listed.get("black_list", ())),
            filter_duplicates=options.filter_api,
        ),
        folder=options.out_path,
        csv_path=options.csv_path,
        formats=_formats_asked(options.format),
        error_data=_error_data(options, listed, source) if options.save_error_data else None,
        jit_compile=options.jit_compile,
    )


def _error_data(options: Namespace, listed: dict[str, Any], source: Source) -> Path:
    """Return the folder for what failed; where a config names a folder for it, one inside of that, as msprobe does."""
    if options.error_data_path is not None:
        return Path(options.error_data_path)
    inside = listed.get("error_data_path") or source.error_data_path()
    return Path(inside, ERROR_DATA) if inside else ERROR_DATA


def words(text: str) -> list[str]:
    """Return the words of a list with commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def whole_number(word: str | None, option: str) -> int | None:
    """Return a number of the command line, None where it is left out."""
    if word is not None and not (word.isdecimal() and int(word) < 10**9):
        raise ConfigError(f"{option} is {word!r}; it must be a whole number.")
    return None if word is None else int(word)


def named_numbers(text: str | None, option: str) -> Named:
    """Return the numbers of a list such as 0,4-6 of the command line; None where it is left out."""
    if text is None or text == "all":
        return "all" if text else None
    named: set[int] = set()
    for word in words(text):
        first, _, last = word.partition("-")
        if not all(part.isdecimal() and int(part) < _MOST_NUMBERS for part in (first, last or first)):
            raise ConfigError(f"{option} is {text!r}; it must be numbers such as 3 or 0,4-6, or all.")
        named.update(range(int(first), int(last or first) + 1))
    if not named:
        raise ConfigError(f"{option} is {text!r}, which names nothing; give numbers such as 3 or 0,4-6, or all.")
    return frozenset(named)


def need_torch() -> None:
    """Raise where torch is not installed."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise MissingTorchError("torchparity check")


def _formats() -> list[str]:
    return plugins.names("report.formats")


def _formats_asked(text: str) -> list[str]:
    """Return the formats of the tables; load all but csv, which a check writes without polars."""
    for word in words(text):
        if word != "csv":
            plugins.load("report.formats", word)
    return words(text)


def _lists(config: Path | None) -> dict[str, Any]:
    """Return white_list, black_list and error_data_path of a config.json, at its top or in its section."""
    if config is None:
        return {}
    try:
        content = json.loads(config.read_bytes())
    except OSError as error:
        raise RunNotFoundError(f"-config {config} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise DamagedFileError(config, f"it is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise DamagedFileError(config, "it is not a JSON object with white_list and black_list")
    section = next((content[name] for name in _SECTIONS if isinstance(content.get(name), dict)), content)
    if not isinstance(section.get("error_data_path") or "", str):
        raise DamagedFileError(config, "error_data_path is not the name of a folder")
    for key in sorted(set(section) - set(_KEYS)):  # the file has settings of other tools too
        if meant := next((each for each in _KEYS if each.replace("_", "") == key.replace("-", "").lower()), None):
            raise ConfigError(f"{config}: unknown field {key!r}. Did you mean {meant!r}?")
    for name in ("white_list", "black_list"):
        if not all(isinstance(word, str) for word in section.get(name) or []):
            raise DamagedFileError(config, f"{name} is not a list of API names")
    return {key: section[key] for key in _KEYS if section.get(key)}


def _print(summary: CheckSummary) -> None:
    done = sum(summary.counts.values())
    for problem in summary.problems:
        print(f"torchparity: {problem}", file=sys.stderr)
    parts = ", ".join(f"{summary.counts[word]} {word}" for word in ("pass", "warning", "error", "SKIP"))
    print(f"Checked {counted(done, 'call')} on {summary.device}: {parts}.")
    if summary.left_out:
        print(summary.left_out)
    for result in [*summary.failed, *summary.warned][:_MOST_SHOWN]:
        place = f"step {result.step}, rank {result.rank}: " if summary.has_many_parts else ""
        directions = f"forward {result.forward}, backward {result.backward or 'none'}"
        print(f"{result.status}: {place}{result.name} ({directions})")
    more = len(summary.failed) + len(summary.warned) - _MOST_SHOWN
    if more > 0:
        print(f"and {more} more.")
    for worst in [*summary.failed, *summary.warned][:1]:
        print(f"{worst.name}: {worst.message}")
    for file in summary.files:
        print(f"Wrote {file}")
    if summary.was_interrupted:
        left = summary.asked - summary.already_done - done
        print(
            f"Interrupted with {counted(left, 'call')} left; go on with -csv_path {summary.files[0]}", file=sys.stderr
        )


def _print_whole(written: WholeResult, summary: CheckSummary) -> None:
    for sentence in written.skips():
        print(printable(sentence))
    if earlier := written.counts - summary.counts:
        parts = ", ".join(f"{number} {word}" for word, number in sorted(earlier.items()))
        print(f"Done before: {counted(earlier.total(), 'call')}: {parts}.")
    strange = len(written.rows) - summary.already_done - sum(summary.counts.values())
    if strange > 0:
        calls = f"{counted(strange, 'call')} of {summary.files[0]}"
        print(f"torchparity: {calls} not asked for now; is it of another run?", file=sys.stderr)
