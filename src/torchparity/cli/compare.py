"""torchparity compare: two runs in, the first wrong operator out.

torchparity compare CANDIDATE BASELINE           prints where the runs part
torchparity compare CANDIDATE BASELINE -o DIR    and writes the tables
torchparity compare CANDIDATE BASELINE --json    prints the answer for programs
torchparity -f pytorch compare -i compare.json -o ./output -hl    as msprobe has it
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from torchparity import plugins
from torchparity.storage import run_path

if TYPE_CHECKING:
    from torchparity.comparing import Alignment, Comparison, Options
    from torchparity.comparing.first_step import FirstStep


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("candidate", nargs="?", type=run_path, metavar="CANDIDATE", help="run under suspicion")
    parser.add_argument("baseline", nargs="?", type=run_path, metavar="BASELINE", help="run that is trusted")
    parser.add_argument("-tp", "--target_path", type=run_path, metavar="RUN", help="CANDIDATE, as msprobe spells it")
    parser.add_argument("-gp", "--golden_path", type=run_path, metavar="RUN", help="BASELINE, as msprobe spells it")
    parser.add_argument(
        "-i", "--input_path", type=Path, metavar="JSON", help="compare.json with npu_path and bench_path"
    )
    parser.add_argument(
        "-o", "--output_path", type=Path, metavar="DIR", help="folder for the tables (with -i: ./output)"
    )
    parser.add_argument(
        "-s", "--stack_mode", action="store_true", help="show call stacks where compare.json names them"
    )
    parser.add_argument("-c", "--compare_only", action="store_true", help="no advisor file")
    parser.add_argument(
        "-f",
        "-fm",
        "--fuzzy_match",
        action="store_true",
        help="pair calls by number in msprobe's way; the default pairs more",
    )
    parser.add_argument("-hl", "--highlight", action="store_true", help="colour suspicious rows of the xlsx")
    parser.add_argument("-dm", "--data_mapping", type=Path, metavar="YAML", help="items that belong together")
    parser.add_argument("-cm", "--cell_mapping", type=Path, metavar="YAML", help="modules that were renamed")
    parser.add_argument("-da", "--diff_analyze", action="store_true", help="write the first differing node as json")
    parser.add_argument("--align", choices=["order", "name"], help="pair calls in the order they ran, or by name alone")
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="PATTERN",
        help="never blame these: a record, a module's path or a shell pattern; may be given again",
    )
    parser.add_argument("--after", metavar="PATTERN", help="look for the first difference behind this record or module")
    parser.add_argument(
        "--tolerance", metavar="X", help="relative deviation that counts as rounding, in place of the derived ones"
    )
    parser.add_argument(
        "--rank-map",
        metavar="MAP",
        help="candidate's ranks and the baseline's to compare them with: 0:4,1:5 or 0-3:4-7; by default equal numbers",
    )
    parser.add_argument(
        "--all-steps", action="store_true", help="every step of the runs, also where a step folder is named"
    )
    engines = plugins.names("comparing.engines")
    parser.add_argument("--engine", choices=engines, default="local", help="who compares values: threads, or Ray")
    parser.add_argument("--address", metavar="HOST:PORT", help="the Ray cluster; without it Ray's own rule holds")
    parser.add_argument("--json", action="store_true", help="print the answer as one JSON object for programs")
    parser.add_argument("--format", default=None, metavar="LIST", help=f"tables to write, of {','.join(_formats())}")
    parser.add_argument("--xlsx", action="store_true", help="the same as --format xlsx")
    parser.add_argument(
        "--fail-on",
        choices=["divergence", "any", "never"],
        default="never",
        help="exit with 1 when the runs part, when any row differs, or never; docs/verdicts.md has the table",
    )


def run(options: Namespace) -> int:
    from torchparity.cli.terminal.collection import no_collection
    from torchparity.errors import StoppedError

    folder = options.output_path or Path("output")
    before = _files_in(folder)
    try:
        with no_collection():
            return _run(options)
    except KeyboardInterrupt:
        raise StoppedError(sorted(_files_in(folder) - before)) from None


def _files_in(folder: Path) -> set[Path]:
    with suppress(OSError):  # there is none, or it is not for us to look into
        return set(folder.iterdir())
    return set()


def _run(options: Namespace) -> int:
    from torchparity.cli.terminal.output import forget_stdout
    from torchparity.cli.terminal.progress import progress
    from torchparity.comparing import compare_runs, exit_code
    from torchparity.comparing.first_step import first_step
    from torchparity.whole_file import refuse_unwritable

    candidate, baseline, settings, folder = _asked(options)
    formats = _formats_asked(options)
    checksums = first_step(candidate, baseline)
    if checksums is not None:
        is_all = not all(any(run.glob("step*")) for run in (candidate, baseline))
        _report_checksums(checksums, options, is_all=is_all)
        if is_all:
            return checksums.exit_code(options.fail_on)
    if folder is not None:
        refuse_unwritable(folder)
    with progress() as show:
        comparison = compare_runs(candidate, baseline, settings, show)
        show("writing", 0, 0)
        written = comparison.write(folder, formats, advice=not options.compare_only) if folder is not None else []
    if options.diff_analyze:
        written += comparison.write_analysis(folder or Path("output"))
    try:
        _report(comparison, written, options)
    except BrokenPipeError:
        forget_stdout()  # nobody reads on, but the exit code still tells whether the runs differ
    of_steps = exit_code(comparison.verdict, options.fail_on, options.fail_on == "any" and comparison.has_differences)
    parts = checksums is not None and checksums.exit_code(options.fail_on) == 1
    return 1 if parts else of_steps


def _report_checksums(checksums: FirstStep, options: Namespace, *, is_all: bool) -> None:
    """Say what `torchparity run --checksum-every` kept; `is_all` where no recorded steps can be compared besides."""
    import json

    from torchparity.text import printable

    if options.json and is_all:
        print(json.dumps(checksums.as_json(options.fail_on), indent=2))
        return
    for line in checksums.lines:  # beside an answer for programs on stderr
        print(printable(line), file=sys.stderr if options.json else sys.stdout)


def _report(comparison: Comparison, written: Sequence[Path], options: Namespace) -> None:
    from torchparity.cli.terminal.comparison import answer_lines, file_lines
    from torchparity.text import one_line

    if _is_logged(options):
        _log_items(comparison)
    for note in comparison.notes:
        print(f"torchparity: {one_line(note)}", file=sys.stderr)
    if options.json:
        from torchparity.comparing import json_text

        print(json_text(comparison, fail_on=options.fail_on, files=written))
        return
    for line in answer_lines(comparison):
        print(one_line(line))
    for line in file_lines(written):
        print(line)


def _log_items(comparison: Comparison) -> None:
    from torchparity.comparing.item_lines import item_lines
    from torchparity.text import one_line

    for lines in item_lines(comparison):
        print("".join(f"{one_line(line)}\n" for line in lines), end="", file=sys.stderr)


def _asked(options: Namespace) -> tuple[Path, Path, Options, Path | None]:
    """Return the two runs, how to compare them and where to write, from any of the three spellings."""
    from torchparity.errors import ConfigError

    if options.fuzzy_match and options.data_mapping:
        raise ConfigError("-dm names pairs and -f looks for them; use one of the two.")
    if options.input_path is not None:
        if options.candidate or options.target_path or options.baseline or options.golden_path:
            raise ConfigError("the runs are given twice: by name and in -i compare.json; use one of the two.")
        return _asked_by_file(options)
    candidate, baseline = options.candidate or options.target_path, options.baseline or options.golden_path
    if (options.candidate and options.target_path) or (options.baseline and options.golden_path):
        raise ConfigError("a run is given twice: as CANDIDATE BASELINE and with -tp/-gp; use one of the two.")
    if options.output_path is None and (options.format or options.highlight or options.xlsx):
        raise ConfigError("--format, --xlsx and -hl are about tables, which are written with -o DIR; give the folder.")
    if candidate is None or baseline is None:
        raise ConfigError("compare needs two runs: torchparity compare CANDIDATE BASELINE, or -i compare.json.")
    return candidate, baseline, _settings(options, by="order"), options.output_path


def _asked_by_file(options: Namespace) -> tuple[Path, Path, Options, Path]:
    """Return the same from a compare.json."""
    from torchparity.config import load_compare_config

    config = load_compare_config(options.input_path)
    stacks = options.stack_mode if config.stack_path else None
    settings = _settings(options, by="name", stacks=stacks, stack_path=config.stack_path)
    return run_path(config.npu_path), run_path(config.bench_path), settings, options.output_path or Path("output")


def _settings(
    options: Namespace, *, by: Alignment, stacks: bool | None = None, stack_path: str | None = None
) -> Options:
    """Return how to compare; `by` is how records are paired unless the command line says otherwise."""
    from torchparity.comparing import Options, parse_rank_map, read_mapping

    return Options(
        by="fuzzy" if options.fuzzy_match else options.align or by,
        highlight=options.highlight,
        stacks=stacks,
        stack_path=stack_path,
        data_mapping=read_mapping(options.data_mapping) if options.data_mapping else {},
        cell_mapping=read_mapping(options.cell_mapping) if options.cell_mapping else {},
        ignore=tuple(options.ignore),
        after=options.after,
        tolerance=_number(options.tolerance),
        rank_map=parse_rank_map(options.rank_map) if options.rank_map is not None else {},
        all_steps=options.all_steps,
        writes_tables=options.output_path is not None or options.input_path is not None or options.diff_analyze,
        engine=options.engine,
        address=options.address,
    )


def _number(text: str | None) -> float | None:
    from torchparity.errors import ConfigError

    try:
        return None if text is None else float(text)
    except ValueError:
        raise ConfigError(f"--tolerance {text!r} is no number; give a relative deviation such as 1e-3.") from None


def _formats() -> list[str]:
    """Return the names of the table formats: those of the files in report/formats."""
    return plugins.names("report.formats")


def _formats_asked(options: Namespace) -> list[str]:
    from torchparity.errors import ConfigError, nearest

    formats = _formats()
    default = "xlsx" if options.xlsx or options.input_path is not None or options.highlight else "csv"
    names = [name.strip() for name in (options.format or default).split(",") if name.strip()]
    for name in names:
        if name not in formats:
            raise ConfigError(
                f"format {name!r} does not exist.{nearest(name, formats)} There are: {', '.join(formats)}."
            )
    return names


def _is_logged(options: Namespace) -> bool:
    """Tell whether compare.json asks for a line per item, which it does unless it says otherwise."""
    if options.input_path is None:
        return False
    from torchparity.config import load_compare_config

    return load_compare_config(options.input_path).is_print_compare_log
