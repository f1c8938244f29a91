"""The file of checksums: written line by line, read as far as it goes, refused where it is something else."""

from __future__ import annotations

import os

import pytest

from torchparity.comparing.first_step import first_step
from torchparity.errors import DamagedFileError, RunNotFoundError
from torchparity.storage.step_checksums import (
    ChecksumWriter,
    StepChecksum,
    checksum_file,
    ranks_with_checksums,
    read_checksums,
)


def write(folder, steps, rank=0, start="0", command=("a b.py",)):
    writer = ChecksumWriter(checksum_file(folder, rank), every=1, command=command, start=start)
    for number, (weights, *losses) in enumerate(steps):
        writer.add(StepChecksum(number, weights, tuple(losses)))
    return folder


def test_what_was_written_is_read(tmp_path):
    write(tmp_path, [("1", "nan"), ("2", "0.5")], rank=3)

    assert ranks_with_checksums(tmp_path) == [3]
    assert read_checksums(tmp_path, 3).steps == [StepChecksum(0, "1", ("nan",)), StepChecksum(1, "2", ("0.5",))]


def test_a_line_that_was_cut_off_is_left_out(tmp_path):
    write(tmp_path, [("1", "1.0"), ("2", "2.0")])
    file = checksum_file(tmp_path, 0)
    file.write_text(file.read_text()[:-5])

    assert [each.step for each in read_checksums(tmp_path, 0).steps] == [0]


HEAD = '{"every": 1, "command": [], "start": ""}\n'
ENDLESS = '{"every": Infinity, "command": [], "start": ""}\n'


@pytest.mark.parametrize("text", ["", "{}\n", "[1]\n", "nothing\n", f"{HEAD}7\n", ENDLESS])
def test_another_file_is_refused(tmp_path, text):
    checksum_file(tmp_path, 0).write_text(text)

    with pytest.raises(DamagedFileError, match=r"checksums_rank0\.jsonl: it is no file of checksums"):
        read_checksums(tmp_path, 0)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(checksum_file(tmp_path, 0))

    with pytest.raises(DamagedFileError, match="no ordinary file"):
        read_checksums(tmp_path, 0)


def test_a_folder_that_is_none_has_no_checksums(tmp_path):
    assert ranks_with_checksums(tmp_path / "nowhere") == []
    assert ranks_with_checksums(tmp_path / "a\0b") == []
    assert first_step(tmp_path, tmp_path) is None


BASELINE = [("1", "0.1"), ("2", "0.2", "0.3")]


@pytest.mark.parametrize(
    ("candidate", "start", "verdict", "said"),
    [
        (BASELINE, "0", "agree", "rank 0: Weights and losses of 2 steps are equal, up to step 1."),
        ([("1", "0.1"), ("3", "0.2", "0.3")], "0", "divergence", "The first step that differs is step 1: the weights"),
        ([("9", "0.1"), ("2", "7.0")], "0", "divergence", "The first step that differs is step 0: the weights differ."),
        ([("1", "7")], "0", "divergence", "step 0: the loss is 7, the baseline's 0.1."),
        ([BASELINE[0], ("2", "7", "0.3")], "0", "divergence", "step 1: loss 1 of 2 is 7, the baseline's 0.2."),
        (
            [BASELINE[0], ("2", "0.2")],
            "0",
            "divergence",
            "step 1: backward was called on 1 loss, in the baseline on 2.",
        ),
        ([], "0", "cannot tell", "rank 0: The runs have no checksum of a common step: none against steps 0 to 1"),
        ([("1", "0.1")], "5", "divergence", "The weights differ before the first step: the models are not "),
    ],
)
def test_the_first_step_that_differs_is_found(tmp_path, candidate, start, verdict, said):
    own = write(tmp_path / "candidate", candidate, start=start)

    found = first_step(own, write(tmp_path / "baseline", BASELINE))

    assert found.verdict == verdict
    assert said in found.lines[0]


@pytest.mark.parametrize(
    ("candidate", "says_where"),
    [
        ([("1", "0.1"), ("9", "0.5")], True),
        ([("1", "0.1"), ("9", "0.7")], False),
        ([("1", "0.1"), ("2", "0.7")], False),
    ],
)
def test_other_weights_after_an_equal_loss_say_where_to_look(tmp_path, candidate, says_where):
    own = write(tmp_path / "candidate", candidate)

    found = first_step(own, write(tmp_path / "baseline", [("1", "0.1"), ("2", "0.5")]))

    assert found.steps == (1, 1)
    assert found.lines[0].endswith("Its loss is equal: look at backward, the optimizer and the buffers.") == says_where
    assert found.as_json("none")["sentence"] == found.lines[0]


def test_of_several_ranks_the_first_that_parts_is_told_with_the_commands_for_both_runs(tmp_path):
    right, wrong = [("1", "1"), ("2", "2")], [("1", "1"), ("2", "9")]
    for rank, steps in ((0, right), (1, wrong)):
        write(tmp_path / "candidate", steps, rank, command=("--model", "net", "a b.py"))
        write(tmp_path / "baseline", right, rank, command=("-m", "train"))

    lines = first_step(tmp_path / "candidate", tmp_path / "baseline").lines

    start = "torchrun --nproc-per-node 2 -m torchparity run --steps 1 --stop-after"
    assert lines == [
        "rank 1: The first step that differs is step 1: the loss is 9, the baseline's 2.",
        "Record it in both runs, and compare:",
        f"  {start} -o candidate_step1 --model net 'a b.py'",
        f"  {start} -o baseline_step1 -m train",
        "  torchparity compare candidate_step1 baseline_step1",
    ]


@pytest.mark.parametrize(
    ("steps", "who"), [(1, "The baseline goes on to step 3"), (9, "The candidate goes on to step 8")]
)
def test_runs_of_other_lengths_are_said_to_be(tmp_path, steps, who):
    lengths = {"candidate": steps, "baseline": 4}
    runs = [write(tmp_path / name, [(str(step), "0.5") for step in range(many)]) for name, many in lengths.items()]

    found = first_step(*runs)

    assert found.verdict == "agree"
    assert found.lines[1].startswith(who)
    assert (found.exit_code("never"), found.exit_code("divergence"), found.exit_code("any")) == (0, 0, 1)


def test_ranks_of_one_run_alone_are_told(tmp_path):
    for rank in (0, 1):
        write(tmp_path / "candidate", BASELINE, rank)
    write(tmp_path / "baseline", BASELINE)

    found = first_step(tmp_path / "candidate", tmp_path / "baseline")

    assert found.lines[1] == "rank 1 is in the candidate alone."
    assert found.exit_code("any") == 1


def test_checksums_of_one_run_alone_cannot_be_compared(tmp_path):
    write(tmp_path / "candidate", BASELINE)
    write(tmp_path / "other rank", BASELINE, rank=1)

    with pytest.raises(RunNotFoundError, match=r"candidate has checksums of steps and no recorded step, .*nowhere has"):
        first_step(tmp_path / "candidate", tmp_path / "nowhere")
    with pytest.raises(RunNotFoundError, match="no common rank: rank 0 against rank 1"):
        first_step(tmp_path / "candidate", tmp_path / "other rank")


@pytest.mark.parametrize(("loss", "codes"), [("0.1", (0, 0)), ("7", (0, 1)), (None, (2, 2))])
def test_the_exit_code_says_whether_steps_differ(tmp_path, loss, codes):
    own = write(tmp_path / "candidate", [] if loss is None else [("1", loss)])

    found = first_step(own, write(tmp_path / "baseline", [("1", "0.1")]))

    assert (found.exit_code("never"), found.exit_code("divergence")) == codes
