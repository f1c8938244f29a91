"""Write comparison tables: 3,730 and 1,000,000 rows of 33 columns, in every format.

Budget, fixed beforehand: 3,730 rows as xlsx in 0.5 s; 1,000,000 rows as csv and parquet in 10 s
together. 3x xlsxwriter called for each cell and 60 s for 1,000,000 rows as xlsx were set after the
first timings: they guard against getting slower. Laps alternate.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import xlsxwriter

from torchparity import plugins
from torchparity.records import Table

FEW, MANY = 3_730, 1_000_000
BUDGET = {"few_xlsx": 0.5, "ratio": 3.0, "many_csv_parquet": 10.0, "many_xlsx": 60.0}


def table(rows: int) -> Table:
    """Return a table like that of two runs' statistics: names, numbers, numbers among words, a stack a record."""
    rng = np.random.default_rng(0)
    index = pl.int_range(rows, eager=True)
    name = pl.select(pl.format("Functional.scaled_dot_product_attention.{}.forward.input.{}", index // 7, index % 7))
    stack = "['File /home/user/net.py, line 7, in forward, \\n return linear(x, w)', 'File train.py, line 20']"
    columns = {"NPU Name": name.to_series(), "Bench Name": name.to_series()}
    for label, text in (("Dtype", "torch.bfloat16"), ("Tensor Shape", "[4, 1024, 2048]"), ("Requires_grad", "True")):
        columns |= {f"{side} {label}": pl.repeat(text, rows, eager=True) for side in ("NPU", "Bench")}
    mixed = [f"metric {number}" for number in range(8)]
    for label in mixed:
        numbers = pl.Series(rng.normal(size=rows)).cast(pl.String)
        columns[label] = numbers.set(pl.Series(rng.random(rows) < 0.1), "N/A")
    columns |= {f"statistic {number}": pl.Series(rng.normal(size=rows)) for number in range(13)}
    columns |= {label: pl.repeat("", rows, eager=True) for label in ("Result", "Err_message")}
    columns["NPU_Stack_Info"] = pl.select(
        pl.when(index % 7 == 0).then(pl.lit(stack)).otherwise(pl.lit("N/A"))
    ).to_series()
    columns["Data_name"] = pl.repeat("['a.pt', 'b.pt']", rows, eager=True)
    colours = [None if number % 50 else "red" for number in range(rows)]
    return Table(frame=pl.DataFrame(columns), title="bench", numeric=frozenset(mixed), colours=colours)


def cell_by_cell(content: Table, path: Path) -> None:
    with xlsxwriter.Workbook(path, {"constant_memory": True}) as book:
        sheet = book.add_worksheet()
        formats = {None: None, "red": book.add_format({"bg_color": "#FF0000"})}
        for row, cells in enumerate(content.frame.iter_rows()):
            colour = formats[content.colours[row]]
            for column, cell in enumerate(cells):
                if isinstance(cell, float):
                    sheet.write_number(row, column, cell, colour)
                else:
                    sheet.write_string(row, column, cell, colour)


def seconds(content: Table, name: str, folder: Path) -> float:
    plugin = plugins.load("report.formats", name)
    start = time.perf_counter()
    plugin.write(content, folder / f"table{plugin.suffix}")
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--rows", type=int, default=MANY)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, few = Path(name), table(FEW)
        seconds(few, "xlsx", folder)  # warm-up
        ours, theirs = [], []
        for _ in range(arguments.laps):
            ours.append(seconds(few, "xlsx", folder))
            start = time.perf_counter()
            cell_by_cell(few, folder / "cells.xlsx")
            theirs.append(time.perf_counter() - start)
        ratios = sorted(slow / fast for slow, fast in zip(theirs, ours, strict=True))
        many = table(arguments.rows)
        large = {kind: round(seconds(many, kind, folder), 2) for kind in plugins.names("report.formats")}
    print(
        json.dumps(
            {
                "bench": "tables",
                "few_xlsx_s": round(statistics.median(ours), 3),
                "xlsxwriter_s": round(statistics.median(theirs), 3),
                "ratio": round(statistics.median(ratios), 1),
                "laps": [round(ratio, 1) for ratio in ratios],
                "rows": arguments.rows,
                "many_s": large,
                "budget": BUDGET,
            }
        )
    )


if __name__ == "__main__":
    main()
