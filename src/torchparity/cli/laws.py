"""torchparity laws: check what the ranks of one run sent each other, without a baseline.

torchparity laws RUN                      broken laws of communication, and what could not be checked
torchparity laws RUN --fail-on broken     exit with 1 when one is broken, for CI
torchparity laws RUN --json               print the answer for programs
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from torchparity.errors import ConfigError
from torchparity.storage import run_path


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=run_path, metavar="RUN", help="run of several ranks, or a step folder of it")
    parser.add_argument("--step", metavar="N", help="step to look at; default: all")
    parser.add_argument("--json", action="store_true", help="print the answer for programs")
    parser.add_argument(
        "--fail-on",
        choices=["broken", "any", "never"],
        default="never",
        help="exit with 1 when a law is broken, when one is broken or could not be checked, or never",
    )


def run(options: Namespace) -> int:
    """Print what is broken; return 1 where --fail-on says so."""
    import json

    from torchparity.cli.terminal.progress import progress
    from torchparity.communication.entry import check_laws
    from torchparity.text import one_line

    if options.step is not None and not (options.step.isdecimal() and int(options.step) < 10**9):
        raise ConfigError(f"--step is {options.step!r}; it must be a whole number.")
    with progress() as show:
        report = check_laws(options.run, None if options.step is None else int(options.step), show)
    if options.json:
        print(json.dumps(report.to_json(), indent=1))
    else:
        for line in report.lines():
            print(one_line(line))
    is_any = options.fail_on == "any" and bool(report.unchecked or report.notes)
    return int(options.fail_on != "never" and (bool(report.broken) or is_any))
