"""All 65,536 float16 and bfloat16 inputs of every unary function we name, on a device; budget on a GPU: 60 s.

python benchmarks/check_exhaustive.py [--device cuda] [--dtypes bfloat16,float16] [--markdown]

Prints the table, with --markdown as docs/check-exhaustive.md holds it, then one JSON line with the time.
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

    print_table([list(COLUMNS), *(found.cells() for found in results)], markdown=options.markdown)
    ran = [found for found in results if not found.reason]
    machine = torch.cuda.get_device_name() if options.device.startswith("cuda") else options.device
    summary = {
        "benchmark": "check_exhaustive",
        "machine": machine,
        "torch": torch.__version__,
        "functions": len({found.function for found in ran}),
        "rows": len(ran),
        "seconds": round(took, 2),
        "not_run": sorted({found.function for found in results} - {found.function for found in ran}),
        "failed": [f"{found.function} {found.dtype}" for found in ran if found.status != "pass"],
    }
    print(json.dumps(summary))


def print_table(rows: list[list[str]], *, markdown: bool) -> None:
    """Print rows in columns; the first row is the header."""
    if markdown:
        header, *body = rows
        for row in [header, ["---"] * len(header), *body]:
            print(f"| {' | '.join(row)} |")
        return
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
