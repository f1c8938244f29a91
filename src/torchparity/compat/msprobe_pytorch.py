"""msprobe.pytorch: `from msprobe.pytorch import *` gives these four."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from torchparity.comparing import compare as compare_runs
from torchparity.comparing import compare_distributed as compare_ranks
from torchparity.comparing.item_lines import item_lines
from torchparity.compat.recorded import recorded_run
from torchparity.errors import ConfigError
from torchparity.randomness import seed_all
from torchparity.recording import PrecisionDebugger
from torchparity.text import one_line

__all__ = ["PrecisionDebugger", "compare", "compare_distributed", "seed_all"]

_PATHS = ("npu_json_path", "npu_path", "bench_json_path", "bench_path")


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
    is_logged = _is_logged(input_param)
    for path in (input_param[key] for key in _PATHS if key in input_param):
        _refuse_missing(path)
    comparison = compare_runs(
        input_param,
        output_path,
        stack_mode=stack_mode,
        auto_analyze=auto_analyze,
        fuzzy_match=fuzzy_match,
        highlight=highlight,
    )
    if is_logged:
        for lines in item_lines(comparison):
            sys.stderr.writelines(f"{one_line(line)}\n" for line in lines)


def compare_distributed(
    npu_dump_dir: str | Path,
    bench_dump_dir: str | Path,
    output_path: str | Path,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    highlight: bool = False,
) -> None:
    """Compare every rank of two step folders, and write the tables and the advisor's files into `output_path`."""
    for path in (npu_dump_dir, bench_dump_dir):
        _refuse_missing(path)
    compare_ranks(
        npu_dump_dir,
        bench_dump_dir,
        output_path,
        stack_mode=stack_mode,
        auto_analyze=auto_analyze,
        fuzzy_match=fuzzy_match,
        highlight=highlight,
    )


def _is_logged(input_param: object) -> bool:
    if not isinstance(input_param, Mapping):
        kind = type(input_param).__name__
        raise ConfigError(f"compare takes a dict with npu_json_path and bench_json_path, not a {kind}.")
    is_logged = input_param.get("is_print_compare_log", True)
    if not isinstance(is_logged, bool):
        raise ConfigError(f"is_print_compare_log is True or False, not {is_logged!r}.")
    return is_logged


def _refuse_missing(path: object) -> None:
    """Name what is recorded beside a path with nothing at it; addresses of other machines are left to the reader."""
    if isinstance(path, (str, Path)) and "://" not in str(path):
        recorded_run(path)
