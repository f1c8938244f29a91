"""msprobe.pytorch: `from msprobe.pytorch import *` gives these four."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from torchparity.comparing import compare as compare_runs
from torchparity.comparing import compare_distributed, item_lines
from torchparity.randomness import seed_all
from torchparity.recording import PrecisionDebugger
from torchparity.text import one_line

__all__ = ["PrecisionDebugger", "compare", "compare_distributed", "seed_all"]


def compare(
    input_param: Mapping[str, object],
    output_path: str | Path,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    highlight: bool = False,
) -> None:
    """Compare two runs, and write the table and the advisor's file into `output_path`.

    `is_print_compare_log` in `input_param` prints a line for each item; it is on unless it is false.
    """
    comparison = compare_runs(
        input_param,
        output_path,
        stack_mode=stack_mode,
        auto_analyze=auto_analyze,
        fuzzy_match=fuzzy_match,
        highlight=highlight,
    )
    if input_param.get("is_print_compare_log", True):
        for lines in item_lines(comparison):
            sys.stderr.writelines(f"{one_line(line)}\n" for line in lines)
