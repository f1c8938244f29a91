"""free_benchmark.csv: several processes add whole lines to it, and its header is there once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.perturbing import rows_in
from tests.support.processes import ROOT
from tests.support.rank_processes import WAIT_FOR_GLOO
from torchparity.errors import ParityError
from torchparity.perturb.findings import SharedTable, Table

ADDING = """
import sys
from pathlib import Path
from torchparity.perturb.findings import SharedTable, Table
table = SharedTable(Path(sys.argv[1]), Table("free_benchmark.csv", ("rank", "text")))
for number in range(300):
    table.add([sys.argv[2], f"{number} " + "x" * 500], 0)
"""
RANK = """
import sys
import torch
import torch.distributed as dist
from torchparity import PrecisionDebugger
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=int(sys.argv[2]), world_size=2)
debugger = PrecisionDebugger(task="free_benchmark", dump_path=sys.argv[1], pert_mode="bit_noise")
debugger.start()
torch.sub(torch.tensor([1e7 + 1]), 1e7)
total = torch.ones(2)
dist.all_reduce(total)
assert total.tolist() == [2.0, 2.0]
debugger.stop()
debugger.step()
PrecisionDebugger.close()
dist.destroy_process_group()
"""


def run_all(code, folder, ranks):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code + WAIT_FOR_GLOO, str(folder), str(rank)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert not any(process.returncode for process in processes)
    return said


def test_lines_of_many_processes_stay_whole(tmp_path):
    run_all(ADDING, tmp_path, 4)

    rows = rows_in(tmp_path)

    assert sorted((row["rank"], int(row["text"].split()[0])) for row in rows) == [
        (str(rank), number) for rank in range(4) for number in range(300)
    ]
    assert all(row["text"].endswith("x" * 500) for row in rows)


def test_every_rank_adds_to_one_file_and_collectives_are_left_alone(tmp_path):
    said = run_all(RANK, tmp_path, 2)

    assert sorted((row["rank"], row["api_name"]) for row in rows_in(tmp_path)) == [
        ("0", "Torch.sub.0.forward"),
        ("1", "Torch.sub.0.forward"),
    ]
    assert all("a collective cannot be run again by one rank" in line for line in said)


def test_a_later_training_adds_to_the_file(tmp_path):
    for number in range(2):
        SharedTable(tmp_path, Table("free_benchmark.csv", ("number",))).add([number], 0)

    assert [row["number"] for row in rows_in(tmp_path)] == ["0", "1"]


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(ParityError, match="cannot write"):
        SharedTable(tmp_path / "file", Table("free_benchmark.csv", ("number",)))


def test_a_line_that_was_cut_off_takes_no_other_with_it(tmp_path):
    table = SharedTable(tmp_path, Table("free_benchmark.csv", ("rank", "text")))
    table.add([0, "first"], 0)
    with table.path.open("ab") as file:
        file.write(b'1,"cut o')

    table.add([2, "last"], 0)

    lines = table.path.read_text(encoding="utf-8").splitlines()
    assert lines == ["rank,text", "0,first", '1,"cut o', "2,last"]


def test_a_table_of_other_columns_is_left_alone(tmp_path):
    table = tmp_path / "free_benchmark.csv"
    table.write_bytes(b"foo,bar\r\n1,2\r\n")

    with pytest.raises(ParityError, match="the table there has other columns"):
        SharedTable(tmp_path, Table("free_benchmark.csv", ("rank", "text")))

    assert table.read_bytes() == b"foo,bar\r\n1,2\r\n"


@pytest.mark.parametrize("before", [b"rank,text\n0,a\n", b"\xef\xbb\xbfrank,text\r\n0,a\r\n", b"rank,text"])
def test_a_table_that_another_program_has_saved_is_gone_on_with(tmp_path, before):
    (tmp_path / "free_benchmark.csv").write_bytes(before)

    table = SharedTable(tmp_path, Table("free_benchmark.csv", ("rank", "text")))
    table.add([1, "b"], 0)

    lines = table.path.read_text(encoding="utf-8-sig").splitlines()
    assert lines[0] == "rank,text" and lines[-1] == "1,b"


def test_rows_of_others_stay_where_those_of_a_step_are_taken_back(tmp_path):
    columns = Table("free_benchmark.csv", ("rank", "text"))
    first, second = SharedTable(tmp_path, columns), SharedTable(tmp_path, columns)
    first.add([0, "same"], 0)
    second.add([0, "same"], 1)
    first.add([0, "first"], 0)
    with first.path.open("ab") as file:
        file.write(b"0," + b"x" * 200_000 + b"\r\n")  # more than the csv module reads

    first.take_back(0)

    lines = first.path.read_text(encoding="utf-8").splitlines()
    assert [line[:6] for line in lines] == ["rank,t", "0,same", "0,xxxx"]
    assert (first.rows, second.rows) == (0, 1)


def test_a_table_that_was_removed_meanwhile_is_not_filled_up(tmp_path):
    table = SharedTable(tmp_path, Table("free_benchmark.csv", ("rank", "text")))
    table.add([0, "gone"], 0)
    table.path.unlink()
    table.add([0, "kept"], 1)

    table.take_back(0)

    assert table.path.read_bytes() == b"rank,text\r\n0,kept\r\n"


REFUSED = """
import resource
import sys
from pathlib import Path
from torchparity.perturb.findings import SharedTable, Table
table = SharedTable(Path(sys.argv[1]), Table("free_benchmark.csv", ("rank", "text")))
table.add([0, "whole"], 0)
most = table.path.stat().st_size + 4
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
table.add([1, "cut off"], 0)
print(table.lost_sentences())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files there")
def test_rows_that_the_system_refuses_are_counted_and_leave_no_part_of_a_line(tmp_path):
    command = [sys.executable, "-c", REFUSED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)

    assert done.stdout == "['1 row could not be written to free_benchmark.csv (file too large)']\n", done.stderr
    assert (tmp_path / "free_benchmark.csv").read_bytes() == b"rank,text\r\n0,whole\r\n"
