"""The file of checksums: written line by line, read as far as it goes, refused where it is something else."""

from __future__ import annotations

import os

import pytest

from torchparity.comparing.first_step import first_step
from torchparity.errors import DamagedFileError
from torchparity.storage.step_checksums import (
    ChecksumWriter,
    StepChecksum,
    checksum_file,
    ranks_with_checksums,
    read_checksums,
)


def write(folder, steps, rank=0, start="0"):
    writer = ChecksumWriter(checksum_file(folder, rank), every=1, command=["a b.py"], start=start)
    for number, (weights, loss) in enumerate(steps):
        writer.add(StepChecksum(number, weights, loss))
    return folder


def test_what_was_written_is_read(tmp_path):
    write(tmp_path, [("1", "nan"), ("2", "0.5")], rank=3)

    assert ranks_with_checksums(tmp_path) == [3]
    assert read_checksums(tmp_path, 3).steps == [StepChecksum(0, "1", "nan"), StepChecksum(1, "2", "0.5")]


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


@pytest.mark.parametrize(
    ("candidate", "start", "differs", "said"),
    [
        ([("1", "0.1"), ("2", "0.2")], "0", False, "rank 0: Weights and losses of 2 steps are equal, up to step 1."),
        ([("1", "0.1"), ("3", "0.2")], "0", True, "rank 0: The first step that differs is step 1: the weights differ."),
        ([("9", "0.1"), ("2", "7.0")], "0", True, "rank 0: The first step that differs is step 0: the weights differ."),
        ([], "0", False, "rank 0: The runs have no checksum of a common step."),
        ([("1", "0.1")], "5", True, "rank 0: The weights differ before the first step: the models are not "),
    ],
)
def test_the_first_step_that_differs_is_found(tmp_path, candidate, start, differs, said):
    own = write(tmp_path / "candidate", candidate, start=start)

    found = first_step(own, write(tmp_path / "baseline", [("1", "0.1"), ("2", "0.2")]))

    assert found.differs is differs
    assert found.lines[0].startswith(said)


def test_of_several_ranks_the_first_that_parts_is_told(tmp_path):
    right, wrong = [("1", "1"), ("2", "2")], [("1", "1"), ("2", "9")]
    for rank, steps in ((0, right), (1, wrong)):
        write(tmp_path / "candidate", steps, rank)
        write(tmp_path / "baseline", right, rank)

    lines = first_step(tmp_path / "candidate", tmp_path / "baseline").lines

    assert lines == [
        "rank 1: The first step that differs is step 1: the loss is 9, the baseline's 2.",
        "Record it: torchparity run --steps 1 -o step1 'a b.py'",
    ]
