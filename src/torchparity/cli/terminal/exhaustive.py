"""An exhaustive check on the terminal: a row for each function and dtype as soon as it is there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchparity.check.execution import device_named
from torchparity.check.exhaustive import COLUMNS, ExhaustiveResult, check_exhaustively, write_exhaustive
from torchparity.errors import ConfigError

_WIDTHS = (16, 8, 7, *(len(name) for name in COLUMNS[3:]))


def check_all_inputs(
    functions: Sequence[str],
    dtypes: Sequence[str],
    device_word: str | None,
    folder: Path | None,
    formats: Sequence[str],
) -> set[str]:
    """Print a row for each function and dtype, write them where a folder is named; return the statuses."""
    if not functions or not dtypes:
        raise ConfigError("--exhaustive and --dtype need names, such as --exhaustive exp,gelu --dtype float16.")
    device = device_named(device_word)
    shown = len(COLUMNS) - (device.type == "cpu")  # the last column is the CPU's own error
    found: list[ExhaustiveResult] = []
    for each in check_exhaustively(dict.fromkeys(functions), dict.fromkeys(dtypes), device):
        if not found:
            print(f"All 65,536 inputs on {device}, against float64:")
            print(_line(COLUMNS[:shown]))
        found.append(each)
        print(_line(each.cells()[:4] if each.reason else each.cells()[:shown]), flush=True)
    if folder is not None:
        for file in write_exhaustive(found, folder, formats):
            print(f"Wrote {file}")
    return {str(each.status) for each in found}


def _line(cells: Sequence[str]) -> str:
    return " | ".join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=False)).rstrip()
