"""Merging: which rows, in which order, with which cells; steps, formats and the worst rank."""

from __future__ import annotations

import pytest

from tests.support.results import STATISTICS, TIME, VALUES, merged_cells, write_result
from torchparity.cli import main
from torchparity.comparing.msprobe.columns import columns_of
from torchparity.merging.modes import METRICS

SEND, RECV, REDUCE = (f"Distributed.{name}.0.forward.input.0" for name in ("send", "recv", "all_reduce"))


def merge(tmp_path, config, *options):
    (tmp_path / "cfg.yaml").write_text(config)
    asked = ["-i", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "-config", str(tmp_path / "cfg.yaml"), *options]
    assert main(["merge", *asked]) == 0
    return merged_cells(tmp_path / "out")


def write_ranks(tmp_path, *ranks, suffix="csv", **options):
    for rank, rows in enumerate(ranks):
        write_result(tmp_path / "in" / f"compare_result_rank{rank}_{TIME}.{suffix}", rows, **options)


def test_the_metrics_are_columns_that_comparing_writes():
    for mode in ("statistics", "values"):
        assert {*METRICS[mode]} < {*columns_of(mode, stacks=True)}
    assert (METRICS["statistics"], METRICS["values"]) == (STATISTICS, VALUES)


def test_names_that_later_ranks_alone_have_follow_at_the_end(tmp_path, capsys):
    write_ranks(tmp_path, {SEND: 1, REDUCE: 2}, {RECV: 3, REDUCE: 4})

    sheets = merge(tmp_path, "api: [Distributed.recv, Distributed.all_reduce, Distributed.send]\n")

    assert sheets["Max diff"] == [["NPU Name", "rank0", "rank1"], [REDUCE, 2, 4], [SEND, 1, None], [RECV, None, 3]]
    assert list(sheets) == list(STATISTICS)
    told = capsys.readouterr()
    assert told.out.startswith("2 ranks, 9 metrics, 3 rows: ")
    assert "Distributed.recv is on rank1 alone; the other ranks have blank cells." in told.err


def test_ranks_stand_in_the_order_of_their_numbers(tmp_path):
    for rank in (10, 2, 0):
        write_result(tmp_path / "in" / f"compare_result_rank{rank}_{TIME}.csv", {SEND: rank})

    assert merge(tmp_path, "api: Distributed\ncompare_index: Max diff\n") == {
        "Max diff": [["NPU Name", "rank0", "rank2", "rank10"], [SEND, 0, 2, 10]]
    }


@pytest.mark.parametrize("word", ["N/A", "unsupported", "nan", "Nan"])
@pytest.mark.parametrize("suffix", ["csv", "json", "parquet", "xlsx"])
def test_where_a_metric_is_no_number_the_largest_values_stand(tmp_path, word, suffix):
    write_ranks(tmp_path, {SEND: word, REDUCE: 1}, suffix=suffix if suffix != "json" else "csv")
    if suffix == "json":
        (tmp_path / "in" / f"compare_result_rank0_{TIME}.csv").unlink()
        write_result(tmp_path / "in" / f"compare_table_rank0_{TIME}.json", {SEND: word, REDUCE: 1})

    sheets = merge(tmp_path, "api: [Distributed]\ncompare_index: [Mean diff]\n")

    assert sheets["Mean diff"][1:] == [[SEND, "NPU:7  Bench:8"], [REDUCE, 1]]


@pytest.mark.parametrize(
    ("api", "found"),
    [
        ("Distributed", 4),
        ("Distributed.all_reduce", 4),
        ("Distributed.all_reduce.1", 2),
        ("Distributed.all_reduce.1.forward", 2),
        ("Distributed.all_red", 0),
        ("Module", 3),
        ("Module.fc.Linear", 3),
        ("Module.fc.Linear.0", 2),
        ("Module.fc.Linear.0.backward", 1),
        ("Module.fc.Linear.backward.0", 1),
        ("Module.fc.Linear.forward", 2),
    ],
)
def test_the_four_forms_of_a_name(tmp_path, api, found):
    names = [f"Distributed.all_reduce.{call}.forward.{item}" for call in (1, 12) for item in ("input.0", "output.0")]
    names += [f"Module.fc.Linear.{call}.input.0" for call in ("forward.0", "backward.0", "forward.1")]
    write_ranks(tmp_path, dict.fromkeys(names, 0.5))

    sheets = merge(tmp_path, f"api: [{api}]\ncompare_index: [Max diff]\n")

    assert len(sheets["Max diff"]) - 1 == found


def test_a_row_that_two_names_ask_for_is_there_once_and_sheets_are_in_the_yaml_s_order(tmp_path):
    write_ranks(tmp_path, {SEND: 1, REDUCE: 2}, metrics=VALUES)

    sheets = merge(tmp_path, "api: [Distributed.all_reduce, Distributed]\ncompare_index: [MaxAbsErr, Cosine]\n")

    assert list(sheets) == ["MaxAbsErr", "Cosine"]
    assert [row[0] for row in sheets["Cosine"][1:]] == [REDUCE, SEND]


def test_truth_values_are_excel_s_own(tmp_path):
    write_ranks(tmp_path, {SEND: 1})

    sheets = merge(tmp_path, "api: [Distributed]\ncompare_index: [Requires_grad Consistent]\n")

    assert sheets["Requires_grad Consistent"][1] == [SEND, True]


def test_each_step_has_its_workbook(tmp_path):
    for step in (0, 1):
        for rank in (0, 1):
            write_result(tmp_path / "in" / f"compare_result_step{step}_rank{rank}_{TIME}.csv", {SEND: step})
    (tmp_path / "cfg.yaml").write_text("api: [Distributed]\n")
    asked = ["--input_dir", str(tmp_path / "in"), "--output_dir", str(tmp_path / "out")]

    assert main(["merge", *asked, "--config-path", str(tmp_path / "cfg.yaml")]) == 0

    names = sorted(path.name.rpartition("_")[0] for path in (tmp_path / "out").iterdir())
    assert names == ["multi_ranks_compare_merge_step0", "multi_ranks_compare_merge_step1"]


def test_a_table_in_several_formats_is_one_result(tmp_path):
    write_ranks(tmp_path, {SEND: 1})
    write_ranks(tmp_path, {SEND: 1}, suffix="xlsx")

    assert merge(tmp_path, "api: [Distributed]\n")["Max diff"] == [["NPU Name", "rank0"], [SEND, 1]]


def test_the_worst_rank_of_each_row(tmp_path):
    write_ranks(tmp_path, {SEND: 0.5, REDUCE: "N/A"}, {SEND: -2, RECV: 1})

    sheets = merge(tmp_path, "api: [Distributed]\ncompare_index: [Max diff]\n", "--worst")

    assert sheets["Max diff"][0] == ["NPU Name", "rank0", "rank1", "worst", "worst rank"]
    assert [row[3:] for row in sheets["Max diff"][1:]] == [[-2, "rank1"], [None, None], [1, "rank1"]]


def test_of_similarities_the_smallest_is_the_worst(tmp_path):
    write_ranks(tmp_path, {SEND: 0.9}, {SEND: 0.1}, {SEND: 0.5}, metrics=VALUES)

    sheets = merge(tmp_path, "api: [Distributed]\ncompare_index: [Cosine]\n", "--worst")

    assert sheets["Cosine"][1][-2:] == [0.1, "rank1"]
