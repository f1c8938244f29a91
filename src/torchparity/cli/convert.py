"""torchparity convert: rewrite a run with its tensors in another format.

torchparity convert RUN OUT --to pt            one .pt per tensor, for msprobe
torchparity convert RUN OUT --to safetensors   shards, equal tensors stored once
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from torchparity.storage import run_path
from torchparity.storage.formats import writable_formats

_WITH_VALUES = "task 'tensor'"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=run_path, metavar="RUN", help="run to read, from torchparity, msprobe or ptdbg")
    parser.add_argument("output", type=Path, metavar="OUT", help="folder for the new run")
    parser.add_argument("--to", choices=writable_formats(), required=True, help="format of the tensors")
    parser.add_argument("--overwrite", action="store_true", help="remove the run that is already in OUT")


def run(options: Namespace) -> int:
    """Return 0, or 2 when something of the run could not be read; the rest is converted all the same."""
    from torchparity.storage import convert_run, open_run
    from torchparity.text import counted, printable

    done = convert_run(open_run(options.run), options.output, options.to, overwrite=options.overwrite)
    for problem in done.problems:
        print(f"torchparity: {printable(problem)}", file=sys.stderr)
    no_values = "" if done.tensors or done.problems else f"; the run has no values, which {_WITH_VALUES} keeps"
    lost = f"; {counted(len(done.problems), 'problem')}, see above" if done.problems else ""
    written = f"{counted(done.records, 'record')} and {counted(done.tensors, 'tensor')} as {options.to}"
    print(f"{options.output}: {written}{no_values}{lost}")
    return 2 if done.problems else 0
