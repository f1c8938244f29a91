"""A file is written whole or not at all."""

from __future__ import annotations

import errno
import os

import pytest

from torchparity.errors import RunWriteError
from torchparity.whole_file import reason_of, refuse_unwritable, whole_file


def test_the_file_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "new folder" / "table.csv"
    with whole_file(path) as temporary:
        temporary.write_text("a,b")
        assert not path.exists()

    assert path.read_text() == "a,b"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError("no"), OSError(errno.ENOSPC, "No space left on device")])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises((ValueError, RunWriteError)), whole_file(path) as temporary:
        temporary.write_text("half")
        raise error

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_stays_missing_where_it_is_not_to_be_made(tmp_path):
    with (
        pytest.raises(RunWriteError, match="no such file or directory"),
        whole_file(tmp_path / "gone" / "file", make_folder=False) as temporary,
    ):
        temporary.write_text("x")

    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("name", ["a" * 255, "ä" * 127])
def test_the_longest_name_that_a_file_can_have_is_written(tmp_path, name):
    with whole_file(tmp_path / name) as temporary:
        temporary.write_text("x")

    assert (tmp_path / name).read_text() == "x"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("I/O error: No space left on device (os error 28)"),
        OSError("No space left on device"),
    ],
)
def test_the_reason_is_the_same_whoever_reports_it(error):
    assert reason_of(error) == "no space left on device"


def test_a_folder_that_can_be_made_is_not_refused_and_not_made(tmp_path):
    refuse_unwritable(tmp_path / "new" / "run")

    assert list(tmp_path.iterdir()) == []


def test_a_link_to_nothing_is_no_folder(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "gone")

    with pytest.raises(RunWriteError, match=r"link/run: not a directory\.$"):
        refuse_unwritable(tmp_path / "link" / "run")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_others_is_refused(tmp_path):
    (tmp_path / "theirs").mkdir(mode=0o555)

    with pytest.raises(RunWriteError, match=r"theirs/run: permission denied\.$"):
        refuse_unwritable(tmp_path / "theirs" / "run")
