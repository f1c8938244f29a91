"""From recorded runs to the merged workbook: comparing and merging here give what msprobe 8.2.0 gave."""

from __future__ import annotations

import math
import re

import pytest

from tests.support.golden import needs_ranks
from tests.support.golden_ranks import cells, unpacked
from tests.support.results import merged_cells
from torchparity import compare_distributed
from torchparity.cli import main

pytestmark = needs_ranks
FORMATS = ("xlsx", "csv", "json", "parquet")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return unpacked(tmp_path_factory.mktemp("ranks"), "runs", "cfg", "expected")


def is_same(ours, theirs):
    """Tell whether cells are equal up to a millionth: msprobe computes in float32 and writes 16 digits."""
    if ours == theirs:
        return True
    mine, their = ([float(number) for number in NUMBER.findall(str(cell))] for cell in (ours, theirs))
    return (
        NUMBER.sub("", str(ours)) == NUMBER.sub("", str(theirs))
        and len(mine) == len(their)
        and all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in zip(mine, their, strict=True))
    )


@pytest.mark.parametrize("case", ["statistics-forward", "tensor-grad"])
def test_every_cell_is_theirs_from_every_format(golden, tmp_path, case):
    base = f"L1-{case.partition('-')[0]}-base"
    runs = golden / "runs"
    compare_distributed(runs / f"L1-{case}" / "step0", runs / base / "step0", tmp_path / "all", formats=FORMATS)
    merged = []
    for suffix in FORMATS:
        (tmp_path / suffix).mkdir()
        for path in (tmp_path / "all").glob(f"compare_*_rank*.{suffix}"):
            path.rename(tmp_path / suffix / path.name)
        asked = [
            "-i",
            str(tmp_path / suffix),
            "-o",
            str(tmp_path / suffix),
            "-config",
            str(golden / "cfg" / "type.yaml"),
        ]
        assert main(["merge", *asked]) == 0
        merged.append(merged_cells(tmp_path / suffix))

    (theirs,) = (golden / "expected" / f"L1-{case}" / "merge-type").glob("*.xlsx")
    pairs = [
        (mine, their)
        for sheet, rows in cells(theirs).items()
        for own, row in zip(merged[0][sheet], rows, strict=True)
        for mine, their in zip(own, row, strict=True)
    ]
    assert list(merged[0]) == list(cells(theirs))
    assert len(pairs) > 2000 and not [pair for pair in pairs if not is_same(*pair)]
    assert [sheets == merged[0] for sheets in merged] == [True] * 4
