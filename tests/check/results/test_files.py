"""Result files: they grow with every API, and an interrupted check goes on with them."""

from __future__ import annotations

import csv

import pytest

from torchparity.check.judging import DETAILS_HEADER, Judgement, Status
from torchparity.check.results import CaseResult, ResultFiles
from torchparity.check.results.tables import write_tables
from torchparity.errors import ConfigError, DamagedFileError, RunNotFoundError


def result(number: int, status: Status = Status.PASS, message: str = "", rank: int = 0) -> CaseResult:
    row = Judgement(name=f"Functional.gelu.{number}.forward.output.0", status=status, message=message)
    return CaseResult(f"Functional.gelu.{number}", status, None, message, (row,), step=4, rank=rank)


def rows(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_rows_are_in_the_files_as_soon_as_they_are_added(tmp_path):
    with ResultFiles.new(tmp_path) as files:
        files.add(result(0))

        assert rows(files.result) == [
            ["API name", "Forward Test Success", "Backward Test Success", "Message", "Step", "Rank"],
            ["Functional.gelu.0", "pass", "", "", "4", "0"],
        ]
        assert rows(files.details)[0] == [*DETAILS_HEADER, "Step", "Rank"]
        assert rows(files.details)[1][0] == "Functional.gelu.0.forward.output.0"
        assert rows(files.details)[1][-2:] == ["4", "0"]


def test_files_about_one_step_of_one_rank_have_the_columns_of_the_seed(tmp_path):
    with ResultFiles.new(tmp_path, (4, 0)) as files:
        files.add(result(0))

    assert rows(files.result) == [
        ["API name", "Forward Test Success", "Backward Test Success", "Message"],
        ["Functional.gelu.0", "pass", "", ""],
    ]
    assert rows(files.details)[0] == list(DETAILS_HEADER)
    with ResultFiles.continued(files.result, (4, 0)) as files:
        assert list(files.done) == [("Functional.gelu.0", 4, 0)]
        files.add(result(1))
    assert [len(row) for row in rows(files.result)] == [4, 4, 4]
    assert {len(row) for row in rows(files.details)} == {len(DETAILS_HEADER)}


def test_an_interrupted_check_goes_on_where_it_was(tmp_path):
    with ResultFiles.new(tmp_path) as files:
        files.add(result(0))
        files.add(result(1))
    # A process that dies between the details of a call and its row leaves the former, and half of the latter.
    lines = files.result.read_text().splitlines(keepends=True)
    files.result.write_text("".join(lines[:-1]) + "Functional.ge")

    with ResultFiles.continued(files.result) as files:
        assert list(files.done) == [("Functional.gelu.0", 4, 0)]
        files.add(result(1))

    assert [row[0] for row in rows(files.result)[1:]] == ["Functional.gelu.0", "Functional.gelu.1"]
    assert len(rows(files.details)) == 3


def test_calls_of_the_same_name_are_told_apart_by_their_rank(tmp_path):
    with ResultFiles.new(tmp_path) as files:
        files.add(result(0, rank=0))
        files.add(result(0, rank=1))
    lines = files.result.read_text().splitlines(keepends=True)
    files.result.write_text("".join(lines[:-1]))

    with ResultFiles.continued(files.result) as files:
        assert list(files.done) == [("Functional.gelu.0", 4, 0)]

    assert [row[-1] for row in rows(files.details)[1:]] == ["0"]


def test_a_row_without_a_status_is_done_again(tmp_path):
    with ResultFiles.new(tmp_path) as files:
        files.add(result(0))
        files.add(result(1, Status.ERROR))
    files.result.write_text(files.result.read_text().replace("gelu.0,pass", "gelu.0,banana"))

    with ResultFiles.continued(files.result) as files:
        assert {key.name: str(known.status) for key, known in files.done.items()} == {"Functional.gelu.1": "error"}

    assert [row[0] for row in rows(files.result)[1:]] == ["Functional.gelu.1"]


def test_a_file_of_another_kind_is_refused(tmp_path):
    other = tmp_path / "accuracy_checking_result.csv"
    with pytest.raises(RunNotFoundError, match="nothing to continue"):
        ResultFiles.continued(other)
    other.write_text("a,b\n1,2\n")
    with pytest.raises(DamagedFileError, match="header"):
        ResultFiles.continued(other)
    with pytest.raises(ConfigError, match="accuracy_checking_result"):
        ResultFiles.continued(tmp_path / "compare.csv")


def test_text_that_a_spreadsheet_would_run_is_guarded_and_numbers_are_not(tmp_path):
    with ResultFiles.new(tmp_path) as files:
        files.add(result(0, message="=HYPERLINK(1)"))
        files.add(result(1, message="-1.5"))

    assert [row[3] for row in rows(files.result)[1:]] == ["'=HYPERLINK(1)", "-1.5"]


def test_other_formats_hold_the_same_rows(tmp_path):
    with ResultFiles.new(tmp_path) as files:
        files.add(result(0, Status.ERROR, "It is wrong."))

    written = write_tables(files.result, files.details, ["csv", "json", "xlsx"])

    names = ["accuracy_checking_details.json", "accuracy_checking_details.xlsx"]
    names += ["accuracy_checking_result.json", "accuracy_checking_result.xlsx"]
    assert sorted(path.name for path in written) == names
    assert (
        '["Functional.gelu.0","error",null,"It is wrong.","4","0","red"]'
        in (tmp_path / "accuracy_checking_result.json").read_text()
    )
