"""torchparity compare: every way in, what it writes, its exit codes, and one sentence for every mistake."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys

import polars as pl
import pytest

import torchparity
from torchparity.cli import main
from torchparity.records import Statistics, TensorLeaf


@pytest.fixture
def runs(golden):
    return golden / "runs"


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("form", ["run", "step", "rank", "file"])
def test_any_level_of_a_run_can_be_named(runs, form, capsys):
    inner = {"run": ".", "step": "step0", "rank": "step0/rank", "file": "step0/rank/dump.json"}[form]
    left, right = (str(runs / f"conv-tensor-L1-{name}" / inner) for name in ("perturb", "base"))

    assert main(["compare", left, right]) == 0

    printed = capsys.readouterr().out
    assert "Functional.batch_norm.0.forward: the weights differ already" in printed
    assert re.search(r"input\.3\)? is off by 0\.02 relative", printed)
    assert "35 records: 35 paired by name; 128 rows compared: 96 by values, 32 arguments." in printed


def test_all_formats_hold_the_same_table(runs, tmp_path):
    left, right = str(runs / "att-statistics-mix-nan"), str(runs / "att-statistics-mix-base")

    assert main(["compare", left, right, "-o", str(tmp_path), "--format", "csv,xlsx,json,parquet"]) == 0

    (table,) = tmp_path.glob("*.csv")
    cells = [list(row.values()) for row in rows_of(table)]
    content = json.loads(next(tmp_path.glob("compare_result_*.json")).read_text())
    frame = pl.read_parquet(next(tmp_path.glob("*.parquet")))
    assert len(cells) == len(content["rows"]) == frame.height == 231
    assert list(rows_of(table)[0]) == frame.columns
    assert next(tmp_path.glob("*.xlsx")).stat().st_size > 10_000
    assert re.fullmatch(r"compare_result_\d{14}\.csv", table.name)
    assert next(tmp_path.glob("advisor_*.txt")).read_text().startswith("Line: ")


def test_the_seeds_command_line(runs, tmp_path, capsys):
    left, right = (str(runs / f"att-tensor-mix-{name}/step0/rank/dump.json") for name in ("perturb", "base"))
    asked = tmp_path / "compare.json"
    asked.write_text(json.dumps({"npu_path": left, "bench_path": right, "is_print_compare_log": True}))

    arguments = ["-f", "pytorch", "compare", "-i", str(asked), "-o", str(tmp_path / "out"), "-s", "-c", "-f", "-hl"]
    assert main(arguments) == 0

    written = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert len(written) == 1 and written[0].endswith(".xlsx")  # -c: no advisor
    assert main(["compare", "-tp", left, "-gp", right]) == 0
    assert "layer_norm.0.forward" in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["tensor", "statistics", "md5"])
def test_the_first_differing_node_is_written(runs, mode, tmp_path):
    left, right = (str(runs / f"conv-{mode}-L1-{name}/step0/rank/dump.json") for name in ("perturb", "base"))

    assert main(["compare", left, right, "-o", str(tmp_path), "-da"]) == 0

    node = json.loads(next(tmp_path.glob("diff_analyze_*.json")).read_text())["rank_0"][0]
    records = json.loads(next(tmp_path.glob("compare_result_rank0_*.json")).read_text())
    assert node["op_name"] in records and not records[node["op_name"]]["is_same"]
    assert node["stack_info"] and node["data_info"]["input"]
    assert node["finding"] in ("differs already in its inputs/parameters", "inputs equal, output differs")


def test_without_a_difference_there_is_no_node(runs, tmp_path):
    base = str(runs / "conv-md5-L1-base")

    assert main(["compare", base, base, "-o", str(tmp_path), "-da"]) == 0

    assert not list(tmp_path.glob("diff_analyze_*"))


@pytest.mark.parametrize(
    ("candidate", "fail_on", "code"),
    [
        ("base", "any", 0),
        ("base", "divergence", 0),
        ("perturb", "never", 0),
        ("perturb", "divergence", 1),
        ("nan", "any", 1),
    ],
)
def test_exit_codes(runs, candidate, fail_on, code):
    left, right = str(runs / f"conv-tensor-L1-{candidate}"), str(runs / "conv-tensor-L1-base")

    assert main(["compare", left, right, "--fail-on", fail_on]) == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", "{base}"], "nowhere"),
        (["{base}"], "compare needs two runs"),
        (["{base}", "{base}", "-o", "{out}", "--format", "xslx"], "Did you mean 'xlsx'?"),
        (["{base}", "{base}", "-dm", "{mapping}", "-f"], "use one of the two"),
        (["{base}", "{base}", "-dm", "{mapping}"], "which the candidate does not have. Did you mean"),
        (["{base}", "{base}", "-dm", "{out}/none.yaml"], "cannot be read"),
        (["{base}", "{base}", "-o", "/proc/no"], "/proc/no"),
        (["-i", "{mapping}"], "mapping.yaml"),
    ],
)
def test_mistakes_get_one_sentence_and_code_2(runs, arguments, said, tmp_path, capsys):
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text("Functional.conv2d.0.forward.inptu.0: Functional.conv2d.0.forward.input.0\n")
    words = {"base": runs / "conv-tensor-L1-base", "out": tmp_path, "mapping": mapping}

    assert main(["compare", *(argument.format(**words) for argument in arguments)]) == 2

    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error and len(error.strip().splitlines()) == 1


def test_a_mapping_pairs_items_of_other_names(runs, tmp_path):
    mapping = tmp_path / "map.yaml"
    mapping.write_text("Functional.conv2d.0.forward.input.1: Functional.conv2d.1.forward.input.1\n")
    left, right = str(runs / "conv-tensor-L1-base"), str(runs / "conv-tensor-L1-base")

    assert main(["compare", left, right, "-o", str(tmp_path), "-dm", str(mapping)]) == 0

    (row,) = [
        row for row in rows_of(next(tmp_path.glob("*.csv"))) if row["NPU Name"] == "Functional.conv2d.0.forward.input.1"
    ]
    assert row["Bench Name"] == "Functional.conv2d.1.forward.input.1"
    assert row["Cosine"] == "shape unmatched" and row["Accuracy Reached or Not"] == "Unmatched"


def test_a_missing_tensor_is_a_row_and_the_rest_is_compared(runs, tmp_path):
    shutil.copytree(runs / "conv-tensor-L1-base", tmp_path / "run")
    gone = next((tmp_path / "run").rglob("Functional.conv2d.0.forward.input.0.pt"))
    gone.unlink()

    assert main(["compare", str(tmp_path / "run"), str(runs / "conv-tensor-L1-base"), "-o", str(tmp_path / "out")]) == 0

    rows = {row["NPU Name"]: row for row in rows_of(next((tmp_path / "out").glob("*.csv")))}
    lost = rows["Functional.conv2d.0.forward.input.0"]
    assert lost["Cosine"] == "unsupported" and "not found or read failed" in lost["Err_message"]
    assert rows["Functional.conv2d.0.forward.input.1"]["Accuracy Reached or Not"] == "Yes"


def test_runs_of_different_kinds_are_compared_by_what_both_have(runs, capsys):
    assert main(["compare", str(runs / "conv-tensor-L1-base"), str(runs / "conv-statistics-L1-base")]) == 0

    printed = capsys.readouterr()
    assert re.search(r"rows compared: \d+ by statistics, \d+ arguments\.$", printed.out, re.MULTILINE)
    assert "the candidate holds more than the other run" in printed.err


def test_a_step_that_only_one_run_has_is_said(runs, tmp_path, capsys):
    for step in (0, 1):
        shutil.copytree(runs / "conv-md5-L1-base" / "step0", tmp_path / "two" / f"step{step}")
    for step in (0, 2):
        shutil.copytree(runs / "conv-md5-L1-base" / "step0", tmp_path / "other" / f"step{step}")

    assert main(["compare", str(tmp_path / "two"), str(tmp_path / "other")]) == 0

    error = capsys.readouterr().err
    assert "step 1, rank 0 is in the candidate alone" in error
    assert "step 2, rank 0 is in the baseline alone" in error


def test_single_points_are_compared(tmp_path, capsys):
    import torch

    for name, factor in (("left", 1.5), ("right", 1.0)):
        with torchparity.capture(tmp_path / name, level="debug", task="tensor") as recording:
            recording.save(torch.ones(3) * factor, "loss")

    assert main(["compare", str(tmp_path / "left"), str(tmp_path / "right"), "-o", str(tmp_path / "out")]) == 0

    (table,) = (tmp_path / "out").glob("debug_compare_result_*.csv")
    (row,) = rows_of(table)
    assert row["NPU Name"] == "loss.0.debug"
    assert row["MaxAbsErr"] == "0.5"


def test_the_python_forms(runs, tmp_path):
    left, right = runs / "conv-tensor-L1-perturb", runs / "conv-tensor-L1-base"
    done = torchparity.compare(left, right)
    assert done.first_divergence.kind == "weights"
    assert done.headline().startswith("First difference: Functional.batch_norm.0.forward")
    assert done.frame.height == 130
    assert [path.suffix for path in done.to_csv(tmp_path)] == [".csv"]

    asked = {
        "npu_json_path": str(left / "step0/rank/dump.json"),
        "bench_json_path": str(right / "step0/rank/dump.json"),
        "is_print_compare_log": True,
    }
    torchparity.compare(asked, str(tmp_path / "seeds"), stack_mode=True, auto_analyze=True, fuzzy_match=False)
    assert {path.suffix for path in (tmp_path / "seeds").iterdir()} == {".xlsx", ".txt"}


def test_comparing_imports_no_torch(runs):
    code = (
        "import sys; from torchparity.cli import main\n"
        f"assert main(['compare', {str(runs / 'conv-tensor-L1-nan')!r}, {str(runs / 'conv-tensor-L1-base')!r}]) == 0\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "False"


def write_rank(path, rank, names, wrong):
    """Write one rank of a run with a record for each name; the value of `wrong` is another one."""
    with torchparity.RunWriter(path, rank=rank) as writer:
        writer.start_step(0)
        for name in names:
            value = 2.0 if name == wrong else 1.0
            leaf = TensorLeaf(
                dtype="torch.float32", shape=(1,), statistics=Statistics(max=value, min=value, norm=value)
            )
            writer.add(torchparity.Record(name=name, direction="forward", output=[leaf]))


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        pytest.param(["Torch.exp.0.forward", "Torch.mul.0.forward"], ["rank_1"], id="before-they-communicate"),
        pytest.param(["Torch.exp.1.forward", "Torch.exp.0.forward"], ["rank_0", "rank_1"], id="in-the-same-stretch"),
        pytest.param(["Torch.exp.0.forward", None], ["rank_0"], id="one-rank-alone"),
    ],
)
def test_the_node_is_that_of_the_ranks_which_differ_first(wrong, expected, tmp_path):
    # Rank 0 does much before it communicates, so its place in the run says nothing about time.
    names = ["Torch.mul.0.forward", "Distributed.all_reduce.0.forward", "Torch.exp.0.forward", "Torch.exp.1.forward"]
    for rank, changed in enumerate(wrong):
        write_rank(tmp_path / "candidate", rank, names, changed)
        write_rank(tmp_path / "baseline", rank, names, None)

    out = tmp_path / "out"
    assert main(["compare", str(tmp_path / "candidate"), str(tmp_path / "baseline"), "-o", str(out), "-da"]) == 0

    nodes = json.loads(next(out.glob("diff_analyze_*.json")).read_text())
    assert sorted(nodes) == expected
    assert len(list(out.glob("compare_result_rank[01]_*.json"))) == 2


@pytest.mark.parametrize(("asked", "lines"), [({}, 130), ({"is_print_compare_log": False}, 0)])
def test_compare_json_decides_whether_each_item_is_a_line(runs, asked, lines, tmp_path, capsys):
    left, right = (str(runs / f"conv-statistics-L1-{name}/step0/rank/dump.json") for name in ("perturb", "base"))
    config = tmp_path / "compare.json"
    config.write_text(json.dumps({"npu_path": left, "bench_path": right, **asked}))

    assert main(["compare", "-i", str(config), "-o", str(tmp_path)]) == 0

    printed = capsys.readouterr()
    assert len(re.findall(r"^rank 0: .+ against .+: (?:Warning|no warning)$", printed.err, re.MULTILINE)) == lines
    assert "rank 0:" not in printed.out


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_bar_is_shown_to_people_only(runs, is_terminal):
    left, right = (str(runs / f"conv-tensor-L1-{name}") for name in ("perturb", "base"))
    command = [sys.executable, "-m", "torchparity", "compare", left, right]
    master, terminal = os.openpty()

    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal if is_terminal else subprocess.PIPE)

    os.close(terminal)
    shown = os.read(master, 1 << 16) if is_terminal else done.stderr
    os.close(master)
    assert done.returncode == 0
    assert (b"comparing step 0, rank 0" in shown) == is_terminal
    assert is_terminal or shown == b""


def write_steps(path, ranks, value):
    """Write two steps of each rank, with one record."""
    for rank in ranks:
        with torchparity.RunWriter(path, rank=rank) as writer:
            for step in (0, 1):
                writer.start_step(step)
                leaf = TensorLeaf(
                    dtype="torch.float32", shape=(1,), statistics=Statistics(max=value, min=value, norm=value)
                )
                writer.add(torchparity.Record(name=f"Torch.exp.{step}.forward", direction="forward", output=[leaf]))
                writer.finish_step()
    return path


def test_the_analysis_of_several_steps_and_ranks_overwrites_nothing(tmp_path, capsys):
    left, right = write_steps(tmp_path / "left", (0, 1), 2.0), write_steps(tmp_path / "right", (0, 1), 1.0)
    out = tmp_path / "out"

    assert main(["compare", str(left), str(right), "-o", str(out), "-da", "--format", "json"]) == 0

    printed = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert len(printed) == len(set(printed)) == len(list(out.iterdir())) == 14
    nodes = json.loads(next(out.glob("diff_analyze_*.json")).read_text())
    assert [node[0]["op_name"] for node in nodes.values()] == ["Torch.exp.0.forward"] * 2  # of the first step


def test_processes_are_paired_by_step_whatever_their_number(tmp_path, capsys):
    for name, process in (("left", 123), ("right", 456)):
        run = write_steps(tmp_path / name, (0,), 1.0)
        for step in (0, 1):
            (run / f"step{step}" / "rank0").rename(run / f"step{step}" / f"proc{process}")

    assert main(["compare", str(tmp_path / "left"), str(tmp_path / "right")]) == 0

    printed = capsys.readouterr()
    assert "2 records: 2 paired by name" in printed.out and printed.err == ""


def test_another_step_or_rank_than_asked_for_is_said(tmp_path, capsys):
    left, right = write_steps(tmp_path / "left", (0,), 1.0), write_steps(tmp_path / "right", (1,), 1.0)

    assert main(["compare", str(left / "step1"), str(right / "step0")]) == 0

    assert "step 1, rank 0 of the candidate is compared with step 0, rank 1 of the baseline" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pipe that can be closed")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_does_not_make_runs_equal(runs, unbuffered):
    left, right = (str(runs / f"conv-tensor-L1-{name}") for name in ("nan", "base"))
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "torchparity", "compare", left, right, "--fail-on", "any"]

    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=environment)

    os.close(writing)
    assert done.returncode == 1 and done.stderr == b""


@pytest.mark.parametrize("form", ["command", "python"])
def test_call_stacks_may_lie_elsewhere(runs, tmp_path, form):
    shutil.copytree(runs / "conv-statistics-L1-base", tmp_path / "run")
    dump = next((tmp_path / "run").rglob("dump.json"))
    stacks = (dump.parent / "stack.json").rename(tmp_path / "calls.json")
    if form == "command":
        asked = {"npu_path": str(dump), "bench_path": str(dump), "stack_path": str(stacks)}
        (tmp_path / "compare.json").write_text(json.dumps(asked))
        arguments = ["-i", str(tmp_path / "compare.json"), "-o", str(tmp_path), "-s", "--format", "csv"]
        assert main(["compare", *arguments]) == 0
    else:
        asked = {"npu_json_path": str(dump), "bench_json_path": str(dump), "stack_json_path": str(stacks)}
        torchparity.compare(asked, tmp_path, stack_mode=True, formats=["csv"])

    assert "File " in rows_of(next(tmp_path.glob("*.csv")))[0]["NPU_Stack_Info"]


def test_call_stacks_that_are_not_there_are_said(runs, tmp_path, capsys):
    dump = str(next((runs / "conv-statistics-L1-base").rglob("dump.json")))
    asked = {"npu_path": dump, "bench_path": dump, "stack_path": str(tmp_path / "calls.json")}
    (tmp_path / "compare.json").write_text(json.dumps({**asked, "is_print_compare_log": False}))
    arguments = ["-i", str(tmp_path / "compare.json"), "-o", str(tmp_path), "-s", "--format", "csv"]

    assert main(["compare", *arguments]) == 0

    assert f"{tmp_path / 'calls.json'} does not exist" in capsys.readouterr().err
    assert "File " in rows_of(next(tmp_path.glob("*.csv")))[0]["NPU_Stack_Info"]  # those beside dump.json


def test_a_rank_that_only_one_run_has_is_a_difference(tmp_path, capsys):
    left, right = write_steps(tmp_path / "left", (0,), 1.0), write_steps(tmp_path / "right", (0, 1), 1.0)

    assert main(["compare", str(left), str(right), "--fail-on", "any"]) == 1
    assert main(["compare", str(left), str(right), "--fail-on", "divergence"]) == 0

    assert "2 ranks or steps of one run alone could not be compared" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys):
    (tmp_path / "file").write_text("")

    assert main(["compare", "no-run", "no-other", "-o", str(tmp_path / "file" / "out")]) == 2

    assert capsys.readouterr().err == f"torchparity: cannot write {tmp_path / 'file' / 'out'}: not a directory.\n"


def test_runs_beside_a_file_that_names_runs_are_refused(tmp_path, capsys):
    asked = tmp_path / "compare.json"
    asked.write_text(json.dumps({"npu_path": "a", "bench_path": "b"}))

    assert main(["compare", "c", "d", "-i", str(asked)]) == 2
    assert "the runs are given twice" in capsys.readouterr().err


@pytest.mark.parametrize("asked", [["--format", "csv"], ["--xlsx"], ["-hl"]])
def test_tables_without_a_folder_are_refused(asked, capsys):
    assert main(["compare", "c", "d", *asked]) == 2
    assert "give the folder" in capsys.readouterr().err


def test_other_findings_follow_the_headline(tmp_path, capsys):
    names = ["Torch.exp.0.forward"]
    for rank in (0, 1):
        write_rank(tmp_path / "candidate", rank, names, "Torch.exp.0.forward")
        write_rank(tmp_path / "baseline", rank, names, None)

    assert main(["compare", str(tmp_path / "candidate"), str(tmp_path / "baseline")]) == 0

    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("step 0, rank 0: First divergence: Torch.exp.0.forward: ")
    assert second.startswith("Also: step 0, rank 1: Torch.exp.0.forward: ") and "First" not in second


def test_facts_beside_the_answer_are_notes(tmp_path, capsys):
    for name, dtype in (("candidate", "torch.float64"), ("baseline", "torch.float32")):
        with torchparity.RunWriter(tmp_path / name) as writer:
            writer.start_step(0)
            for place in (0, 1):
                value = 2.0 if name == "candidate" and place else 1.0
                leaf = TensorLeaf(dtype=dtype, shape=(1,), statistics=Statistics(max=value, min=value, norm=value))
                writer.add(torchparity.Record(name=f"Torch.exp.{place}.forward", direction="forward", output=[leaf]))
    done = torchparity.compare(tmp_path / "candidate", tmp_path / "baseline")

    assert main(["compare", str(tmp_path / "candidate"), str(tmp_path / "baseline")]) == 0

    lines = capsys.readouterr().out.splitlines()
    notes = [f"Note: {remark}" for remark in done.verdict.remarks]
    assert notes and [*notes, f"Next: {done.advice()}"] == lines[1:-1]


@pytest.mark.parametrize("text", ["much", "1e-3x", "-1", "nan", "inf"])
def test_a_tolerance_that_is_no_number_is_refused(runs, text, capsys):
    base = str(runs / "conv-statistics-L1-base")

    assert main(["compare", base, base, f"--tolerance={text}"]) == 2

    error = capsys.readouterr().err
    assert "tolerance" in error and "such as 1e-3" in error and len(error.splitlines()) == 1


@pytest.mark.parametrize("option", ["--ignore", "--after"])
def test_a_pattern_that_names_nothing_is_refused(runs, option, capsys):
    base = str(runs / "conv-statistics-L1-base")

    assert main(["compare", base, base, option, "Functional.batch_nrom.0.forward"]) == 2

    error = capsys.readouterr().err
    assert "Did you mean 'Functional.batch_norm.0.forward'?" in error and len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(["--ignore", "Torch.exp.0.forward"], "Torch.exp.1.forward", id="ignore"),
        pytest.param(["--after", "Torch.exp.0.forward"], "Torch.exp.1.forward", id="after"),
        pytest.param(["--ignore", "*.exp.*"], None, id="ignore-all"),
        pytest.param(["--tolerance", "2"], None, id="tolerance"),
    ],
)
def test_an_expected_difference_can_be_passed(tmp_path, options, expected, capsys):
    left, right = write_steps(tmp_path / "left", (0,), 2.0), write_steps(tmp_path / "right", (0,), 1.0)

    main(["compare", str(left), str(right), "--json", *options])

    first = json.loads(capsys.readouterr().out)["first"]
    assert (first and first["record"]) == expected


@pytest.mark.parametrize(
    ("task", "measure"), [("tensor", "values"), ("statistics", "statistics"), ("md5", "checksums")]
)
def test_rows_are_counted_by_what_they_were_compared_by(runs, task, measure, tmp_path):
    left, right = (runs / f"conv-{task}-L1-{name}" for name in ("extra", "base"))
    done = torchparity.compare(left, right)

    by = done.rows_compared()

    tensors = [entry for entry in done.comparisons if not entry.pair.is_argument and entry.is_matched]
    assert by[measure] == len([entry for entry in tensors if entry.deviation is not None])
    assert by.total() == sum(entry.deviation is not None for entry in done.comparisons) < len(list(done.comparisons))
