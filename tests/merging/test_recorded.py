"""Four processes recorded twice, compared and merged: the sheets show which ranks gave and received what."""

from __future__ import annotations

import pytest

from tests.merging.reducing_ranks import FAULTY, RANKS, record_ranks
from tests.support.results import VALUES, merged_cells
from torchparity import compare_distributed
from torchparity.cli import main

REDUCED = "Distributed.all_reduce.0.forward"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    record_ranks(folder)
    return folder


@pytest.mark.parametrize("suffix", ["xlsx", "csv", "parquet"])
def test_the_sheets_show_rank_group_and_what_was_passed_on(runs, tmp_path, suffix):
    done = compare_distributed(runs / "scaled" / "step0", runs / "right" / "step0", tmp_path / "in", formats=[suffix])
    (tmp_path / "cfg.yaml").write_text("api: [Distributed.all_reduce]\n")

    asked = ["-i", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "-config", str(tmp_path / "cfg.yaml")]
    assert main(["-f", "pytorch", "merge_result", *asked]) == 0

    sheets = merged_cells(tmp_path / "out")
    assert list(sheets) == list(VALUES)
    assert sheets["MaxAbsErr"][0] == ["NPU Name", *(f"rank{rank}" for rank in range(RANKS))]
    rows = {name: cells for name, *cells in sheets["MaxAbsErr"][1:]}
    given, received, group = (rows[f"{REDUCED}.{item}"] for item in ("input.0", "output.0", "input.group"))
    assert [error > 0 for error in given] == [rank == FAULTY for rank in range(RANKS)]
    assert [error > 0 for error in received] == [False, False, True, True]  # both ranks of its group
    assert group == ["NPU:[0, 1]  Bench:[0, 1]"] * 2 + ["NPU:[2, 3]  Bench:[2, 3]"] * 2
    assert (done.first_divergence.rank, done.first_divergence.record) == (FAULTY, REDUCED)
