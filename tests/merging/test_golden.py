"""The merged workbooks of msprobe 8.2.0, cell by cell: from its xlsx, and from the same tables as csv and parquet."""

from __future__ import annotations

import polars as pl
import pytest

from tests.support.golden import needs_ranks
from tests.support.golden_ranks import cells, unpacked
from torchparity.cli import main

pytestmark = needs_ranks
FILES, SHEETS, CELLS = 19, 100, 16_128  # as its README counts them; sheets that have rows


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return unpacked(tmp_path_factory.mktemp("ranks"), "cfg", "expected")


def cases(golden):
    """Yield msprobe's results, the configuration and the workbook that it made of them."""
    for book in sorted(golden.glob("expected/*/merge-*/*.xlsx")):
        yield book.parents[1] / "compare", golden / "cfg" / f"{book.parent.name.removeprefix('merge-')}.yaml", book


def merged(results, config, out):
    assert main(["-f", "pytorch", "merge_result", "-i", str(results), "-o", str(out), "-config", str(config)]) == 0
    (book,) = out.glob("multi_ranks_compare_merge_*.xlsx")
    return cells(book)


def as_tables(results, folder, suffix):
    """Write the tables of msprobe's xlsx files in another format."""
    folder.mkdir()
    for path in results.glob("compare_result_rank*.xlsx"):
        header, *rows = next(iter(cells(path).values()))
        texts = [[None if cell is None else str(cell) for cell in row] for row in rows]
        frame = pl.DataFrame(texts, schema=dict.fromkeys(header, pl.String), orient="row")
        getattr(frame, f"write_{suffix}")(folder / f"{path.stem}.{suffix}")
    return folder


def is_same(mine, theirs):
    return mine == theirs and isinstance(mine, bool) == isinstance(theirs, bool)


def test_every_cell_is_theirs(golden, tmp_path):
    files = sheets = equal = total = 0
    for results, config, book in cases(golden):
        theirs, ours = cells(book), merged(results, config, tmp_path / str(files))
        assert list(ours) == list(theirs)
        for sheet, rows in theirs.items():
            assert ours[sheet][0] == rows[0]
            assert [row[0] for row in ours[sheet]] == [row[0] for row in rows]  # names, in their order
            pairs = [
                pair
                for mine, their in zip(ours[sheet][1:], rows[1:], strict=True)
                for pair in zip(mine[1:], their[1:], strict=True)
            ]
            total += len(pairs)
            equal += sum(is_same(*pair) for pair in pairs)
            sheets += len(rows) > 1
        files += 1

    print(f"{equal} of {total} cells equal, in {sheets} sheets of {files} files")
    assert (files, sheets, total) == (FILES, SHEETS, CELLS)
    assert equal == total


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(("case", "config"), [("statistics-forward", "type"), ("tensor-grad", "name_index")])
def test_other_formats_give_the_same_workbook(golden, tmp_path, case, config, suffix):
    results, yaml = golden / "expected" / f"L1-{case}" / "compare", golden / "cfg" / f"{config}.yaml"
    others = as_tables(results, tmp_path / "tables", suffix)

    assert merged(others, yaml, tmp_path / "out") == merged(results, yaml, tmp_path / "theirs")
