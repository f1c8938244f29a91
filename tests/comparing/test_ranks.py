"""Ranks: which are compared with which, what is said of the others, and the files and summary of each."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import torchparity
from tests.support.rank_runs import RankRun
from torchparity.cli import main
from torchparity.comparing import summary_lines
from torchparity.errors import ConfigError, RunNotFoundError
from torchparity.records import GroupLeaf, Statistics, TensorLeaf, ValueLeaf


def leaf(value):
    return TensorLeaf(dtype="torch.float32", shape=(1,), statistics=Statistics(max=value, min=value, norm=value))


def write_run(path, ranks, *, steps=(0,), wrong=(), peers=None):
    """Write a run of one `exp` and one `send` for each rank and step; the ranks in `wrong` compute another value.

    Each rank has a value of its own, and `peers` the rank that it sends to and its group.
    """
    for place, rank in enumerate(ranks):
        peer, group = (peers or {}).get(rank, (0, (0, 1)))
        with torchparity.RunWriter(path, rank=rank) as writer:
            for step in steps:
                writer.start_step(step)
                value = (1.0 + place) * (2.0 if rank in wrong else 1.0)
                writer.add(torchparity.Record(name="Torch.exp.0.forward", direction="forward", output=[leaf(value)]))
                sent = [leaf(1.0), ValueLeaf("int", peer), GroupLeaf(ranks=group)]
                writer.add(torchparity.Record(name="Distributed.send.0.forward", direction="forward", input_args=sent))
                writer.finish_step()
    return path


def rename_ranks(run, kind):
    for folder in sorted(run.glob("step*/rank*")):
        folder.rename(folder.with_name(folder.name.replace("rank", kind)))


def test_each_rank_has_its_result_and_all_have_one_summary(tmp_path, capsys):
    left, right = write_run(tmp_path / "left", range(4), wrong=[2]), write_run(tmp_path / "right", range(4))
    out = tmp_path / "out"

    assert main(["compare", str(left / "step0"), str(right / "step0"), "-o", str(out), "--xlsx"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert "ranks 0 to 1: none of 4 rows differs" in lines
    assert "rank 2: 1 of 4 rows differ, first Torch.exp.0.forward.output.0; the runs part here" in lines
    assert "rank 3: none of 4 rows differs" in lines
    assert [len(list(out.glob(f"compare_result_rank{rank}_*.xlsx"))) for rank in range(4)] == [1] * 4
    assert len(list(out.glob("compare_summary_*.xlsx"))) == 1


def test_the_summary_has_a_row_for_each_step_and_rank(tmp_path):
    left = write_run(tmp_path / "left", range(2), steps=(0, 1), wrong=[1])
    right = write_run(tmp_path / "right", range(2), steps=(0, 1))

    torchparity.compare_distributed(left, right, tmp_path / "out", formats=["csv"])

    with next((tmp_path / "out").glob("compare_summary_*.csv")).open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["Step"], row["Rank"], row["Rows that differ"]) for row in rows] == [
        ("0", "0", "0"),
        ("0", "1", "1"),
        ("1", "0", "0"),
        ("1", "1", "1"),
    ]
    assert [row["Runs part here"] for row in rows] == ["False", "True", "False", "False"]


def test_the_answer_for_programs_has_every_rank(tmp_path, capsys):
    left, right = write_run(tmp_path / "left", range(2), wrong=[1]), write_run(tmp_path / "right", range(2))

    assert main(["compare", str(left), str(right), "--json"]) == 0

    ranks = json.loads(capsys.readouterr().out)["ranks"]
    assert [(entry["rank"], entry["differing"], entry["parts_here"]) for entry in ranks] == [
        (0, 0, False),
        (1, 1, True),
    ]


@pytest.mark.parametrize(
    ("candidate", "baseline", "sentence"),
    [
        pytest.param(range(4), range(2), "ranks 2 to 3 are in the candidate alone and were not compared.", id="more"),
        pytest.param(range(2), range(3), "rank 2 is in the baseline alone and was not compared.", id="fewer"),
        pytest.param(
            (0, 1, 4),
            (1, 2, 5, 6),
            "ranks 0 and 4 are in the candidate alone and ranks 2 and 5 to 6 are in the baseline alone; "
            "they were not compared.",
            id="both",
        ),
    ],
)
def test_common_ranks_are_compared_and_one_sentence_names_the_rest(tmp_path, candidate, baseline, sentence):
    left = write_run(tmp_path / "left", candidate, steps=(0, 1))
    right = write_run(tmp_path / "right", baseline, steps=(0, 1))

    done = torchparity.compare(left, right)

    assert {part.rank for part in done.parts} == {*candidate} & {*baseline}
    assert done.notes == [sentence]


def test_steps_that_one_run_lacks_are_told_for_all_ranks_at_once(tmp_path):
    left = write_run(tmp_path / "left", range(3), steps=(0, 1, 2))
    right = write_run(tmp_path / "right", range(3))

    done = torchparity.compare(left, right)

    assert done.notes == ["steps 1 to 2, ranks 0 to 2 are in the candidate alone and were not compared."]
    assert done.parts_alone == 6


def test_a_rank_map_says_which_ranks_belong_together(tmp_path):
    left = write_run(tmp_path / "left", (0, 1), wrong=[1])
    right = write_run(tmp_path / "right", (4, 5, 6))

    done = torchparity.compare(left, right, rank_map="0:4,1:5")

    assert [(part.rank, part.baseline.rank) for part in done.parts] == [(0, 4), (1, 5)]
    assert (done.first_divergence.rank, done.first_divergence.record) == (1, "Torch.exp.0.forward")
    assert done.notes == ["rank 6 of the baseline is not in the rank map and was not compared."]
    assert done.parts_alone == 0  # nobody asked for it


def test_several_ranks_may_be_compared_with_one(tmp_path):
    left, right = write_run(tmp_path / "left", (0, 1)), write_run(tmp_path / "right", (0,))

    done = torchparity.compare(left, right, rank_map="0-1:0")

    assert [entry.differing for entry in done.rank_summaries] == [0, 1]  # each rank has its own value


def test_peers_and_groups_go_by_the_map_too(tmp_path):
    mine, other = {0: (1, (0, 1)), 1: (0, (0, 1))}, {4: (5, (4, 5)), 5: (4, (4, 5))}
    left = write_run(tmp_path / "left", (0, 1), peers=mine)
    right = write_run(tmp_path / "right", (4, 5), peers=other)

    done = torchparity.compare(left, right, rank_map={0: 4, 1: 5})
    swapped = torchparity.compare(left, right, rank_map={0: 5, 1: 4})

    assert done.verdict.kind == "agree"
    assert done.frame["NPU max"].to_list()[-2:] == ["1", "[0, 1]"]  # the table shows what was recorded
    assert done.frame["Bench max"].to_list()[-2:] == ["5", "[4, 5]"]
    assert swapped.verdict.kind != "agree"


def test_several_processes_need_a_map_which_the_error_spells_out(tmp_path):
    left, right = write_run(tmp_path / "left", (101, 102)), write_run(tmp_path / "right", (201, 202))
    for run in (left, right):
        rename_ranks(run, "proc")

    with pytest.raises(RunNotFoundError, match="--rank-map says which belong together, such as 101:201,102:202"):
        torchparity.compare(left, right)
    torchparity.compare_distributed(left, right, tmp_path / "out", rank_map="101:201,102:202", formats=["csv", "json"])

    names = sorted(path.name.rpartition("_")[0] for path in (tmp_path / "out").glob("compare_*"))
    assert names == [
        *("compare_result_proc101", "compare_result_proc102", "compare_summary", "compare_summary"),
        *("compare_table_proc101", "compare_table_proc102"),
    ]


@pytest.mark.parametrize("name", ["rank", "rank7", "proc123"])
def test_a_single_rank_of_any_name_is_compared_and_named(tmp_path, name):
    left, right = write_run(tmp_path / "left", (0,)), write_run(tmp_path / "right", (0,))
    (left / "step0" / "rank0").rename(left / "step0" / name)
    digits = name[4:] or "0"

    torchparity.compare_distributed(left / "step0", right / "step0", tmp_path / "new" / "out")

    (result,) = (tmp_path / "new" / "out").glob("compare_result_*.xlsx")
    assert result.name.startswith(f"compare_result_{name.rstrip('0123456789')}{digits}_")


def test_a_rank_that_is_there_twice_is_refused(tmp_path):
    left, right = write_run(tmp_path / "left", (0, 1)), write_run(tmp_path / "right", (0, 1))
    (left / "step0" / "rank1").rename(left / "step0" / "rank")

    with pytest.raises(RunNotFoundError, match=r"has rank 0 of step 0 twice: rank and rank0"):
        torchparity.compare(left, right)


def test_step_folders_of_other_numbers_are_compared_and_it_is_said(tmp_path):
    left, right = write_run(tmp_path / "left", (0, 1), steps=(3,)), write_run(tmp_path / "right", (0, 1), steps=(0,))

    done = torchparity.compare_distributed(left / "step3", right / "step0", tmp_path / "out")

    assert [(part.rank, part.baseline.rank) for part in done.parts] == [(0, 0), (1, 1)]
    assert done.notes == ["step 3 of the candidate is compared with step 0 of the baseline."]


@pytest.mark.parametrize("named", ["step0", "step0/rank0/dump.json", "."])
def test_all_steps_of_the_runs_are_compared_whatever_is_named(tmp_path, named, monkeypatch, capsys):
    left, right = (
        write_run(tmp_path / "step9" / "left", range(2), steps=(0, 1)),
        write_run(tmp_path / "right", range(2), steps=(0, 1)),
    )
    monkeypatch.chdir(tmp_path)

    assert main(["compare", str(left / named), str(right / named), "--all-steps", "-o", "out"]) == 0

    assert len(list((tmp_path / "out").glob("compare_result_step[01]_rank[01]_*.csv"))) == 4
    assert capsys.readouterr().err == ""


def test_of_many_equal_ranks_there_is_one_line_and_of_many_unlike_ones_a_few(tmp_path):
    left, right = write_run(tmp_path / "left", range(30)), write_run(tmp_path / "right", range(30))
    same = torchparity.compare(left, right)
    odd = torchparity.compare(write_run(tmp_path / "odd", range(30), wrong=range(1, 30, 2)), right)

    assert summary_lines(same.rank_summaries) == ["ranks 0 to 29: none of 4 rows differs"]
    lines = summary_lines(odd.rank_summaries)
    assert len(lines) == 11 and lines[-1] == "and 20 more"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'', which is no pair of ranks"),
        ("0", "'0', which is no pair of ranks"),
        ("0:1:2", "'0:1:2', which is no pair of ranks"),
        ("-1:0", "'-1:0', which is no pair of ranks"),
        ("0-3:4-6", "'0-3:4-6', whose sides do not have as many ranks"),
        ("3-0:0", "'3-0:0', whose sides do not have as many ranks"),
        ("0:4,0:5", "rank 0 of the candidate twice"),
        ("0-999999999:0", "longer than any training"),
        ("0:9", "rank 9 of the baseline, which has ranks 0 to 1"),
        ("7:0", "rank 7 of the candidate, which has ranks 0 to 1"),
    ],
)
def test_what_is_no_map_of_ranks_is_refused(tmp_path, text, problem):
    runs = [write_run(tmp_path / name, range(2)) for name in ("left", "right")]

    with pytest.raises(ConfigError) as refused:
        torchparity.compare(*runs, rank_map=text)

    assert problem in str(refused.value)


def test_a_misspelt_option_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match=r"no option 'highligth'\. Did you mean 'highlight'"):
        torchparity.compare_distributed(tmp_path, tmp_path, tmp_path, highligth=True)


def test_what_is_to_be_said_of_every_rank_is_said_once(tmp_path):
    runs = [RankRun(3, task) for task in ("tensor", "statistics")]
    for run in runs:
        for rank in range(3):
            run.call(rank, "Torch.exp", [np.zeros(4, np.float32)], [np.ones(4, np.float32)])

    notes = torchparity.compare(*(run.write(tmp_path / run.task) for run in runs)).notes

    assert notes == [
        "every step and rank: the candidate holds more than the other run; both are compared by their statistics."
    ]
