"""torchparity overflow_check: name where nan or inf first arises over all ranks, as msprobe has it.

torchparity overflow_check -i RUN/step0 -o ./output    the same as torchparity overflow --origin
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from torchparity.cli.overflow import find_origin


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-i", "--input_path", type=Path, required=True, metavar="DIR", help="step folder of a run")
    parser.add_argument("-o", "--output_path", type=Path, metavar="DIR", help="folder for the file; default: ./output")


def run(options: Namespace) -> int:
    """Print the first rank and record, and write anomaly_analyze.json."""
    from torchparity.storage import open_run

    return find_origin(open_run(options.input_path).select(), options.output_path, as_json=False, fails=False)
