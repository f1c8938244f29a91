"""All 65,536 float16 and bfloat16 inputs of every unary function we name, on a device; budget on a GPU: 60 s.

python benchmarks/check_exhaustive.py [--device cuda] [--dtypes bfloat16,float16] [--markdown]

Prints the table, with --markdown a section of docs/check-exhaustive.md, then one JSON line with the time.
"""

from __future__ import annotations

import argparse
import json
import time

import torch

from torchparity.check.exhaustive import COLUMNS, DTYPES, UNARY, check_exhaustively


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--functions", default=",".join(UNARY))
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()

    torch.ones(1, device=options.device).exp()  # starting the device is not what is measured
    began = time.perf_counter()
    results = list(check_exhaustively(options.functions.split(","), options.dtypes.split(","), options.device))
    took = time.perf_counter() - began

    machine = torch.cuda.get_device_name() if options.device.startswith("cuda") else "CPU"
    if options.markdown:
        print_section(f"{machine}, torch {torch.__version__}", results, options.dtypes.split(","))
    else:
        print_columns([list(COLUMNS), *(found.cells() for found in results)])
    ran = [found for found in results if not found.reason]
    summary = {
        "benchmark": "check_exhaustive",
        "machine": machine,
        "torch": torch.__version__,
        "functions": len({found.function for found in ran}),
        "rows": len(ran),
        "seconds": round(took, 2),
        "not_run": sorted({found.function for found in results} - {found.function for found in ran}),
        "failed": [f"{found.function} {found.dtype}" for found in ran if found.status == "error"],
    }
    print(json.dumps(summary))


def print_columns(rows: list[list[str]]) -> None:
    """Print rows in columns; the first row is the header."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_section(title: str, results: list, dtypes: list[str]) -> None:
    """Print a row for each function, with the columns of each dtype side by side."""
    columns = [f"{dtype}: {name}" for dtype in dtypes for name in ("worst ULP", "mean ULP", "status")]
    print(f"## {title}\n")
    print(f"| function | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 1) + "|")
    for function in dict.fromkeys(found.function for found in results):
        cells = [cell for found in results if found.function == function for cell in cells_of(found)]
        print(f"| {function} | {' | '.join(cells)} |")
    print()


def cells_of(found) -> list[str]:
    """Return the worst ULP with its input, the mean, and the status with what is misplaced."""
    if found.reason:
        return ["", "", found.reason.replace("|", "/")]
    worst = f"{found.max_ulp:.3g}" + (f" at {found.worst_input:.4g}" if found.max_ulp else "")
    misplaced = (
        f", {found.misplaced} nan or inf misplaced, first at {found.first_misplaced:.4g}" if found.misplaced else ""
    )
    return [worst, f"{found.mean_ulp:.2g}", f"{found.status}{misplaced}"]


if __name__ == "__main__":
    main()
