"""torchparity merge: the results of many ranks in one workbook, a sheet per metric, a column per rank.

torchparity merge -i DIR -o DIR -config cfg.yaml
torchparity -f pytorch merge_result -i DIR -o DIR -config cfg.yaml    as msprobe has it
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-i", "--input_dir", type=Path, required=True, metavar="DIR", help="folder with the tables that compare wrote"
    )
    parser.add_argument(
        "-o", "--output_dir", type=Path, required=True, metavar="DIR", help="folder for the workbook, made if need be"
    )
    parser.add_argument(
        "-config",
        "--config-path",
        type=Path,
        required=True,
        metavar="YAML",
        help="api: the names to merge; compare_index: the metrics, all by default",
    )
    parser.add_argument("--worst", action="store_true", help="add the worst cell of each row, and its rank")


def run(options: Namespace) -> int:
    from torchparity.cli.terminal.collection import no_collection
    from torchparity.cli.terminal.progress import progress
    from torchparity.merging import merge_results, read_config
    from torchparity.text import one_line

    config = read_config(options.config_path)
    with no_collection(), progress() as show:
        workbooks = merge_results(options.input_dir, options.output_dir, config, worst=options.worst, show=show)
    for merged in workbooks:
        for note in merged.notes:
            print(f"torchparity: {one_line(note)}", file=sys.stderr)
        print(f"{merged.sentence}: {merged.path}")
    return 0
