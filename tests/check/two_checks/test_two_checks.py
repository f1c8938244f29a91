"""Two checks side by side: files in, judgements and files out."""

from __future__ import annotations

import csv
import subprocess
import sys

import pytest
import torch

from torchparity import cli
from torchparity.check.judging import DETAILS_HEADER, Outcome, judge, skipped
from torchparity.check.two_checks import DETAILS_COLUMNS, RESULT_COLUMNS, compare_checks
from torchparity.errors import ConfigError, DamagedFileError, RunNotFoundError

# msprobe's own header: four names and the last two in English, the metrics in Chinese.
MSPROBE_HEADER = [*DETAILS_HEADER[:4], *(f"指标{place}" for place in range(17)), "Status", "Message"]


def details(path, judgements):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([DETAILS_HEADER, *(judgement.row() for judgement in judgements)])
    return path


def results(noise):
    """The judgements of one check whose device is off by `noise`, relative to what its dtype rounds."""
    reference = torch.randn(400, generator=torch.Generator().manual_seed(0))
    away = torch.randn(400, generator=torch.Generator().manual_seed(1)) * 2.0**-8 * noise
    device = (reference * (1 + away)).bfloat16()
    whole = torch.arange(5)

    def judged(api, call, one=device, right=reference):
        return judge(Outcome(api, f"{api}.{call}", one, right))

    return [
        judged("Functional.softmax", "0.forward.output.0"),
        judged("Functional.softmax", "0.backward.output.0", reference.bfloat16()),
        judged("Torch.add", "0.forward.output.0"),
        judged("Functional.linear", "1.forward.output.0"),
        judged("Functional.conv2d", "0.forward.output.0"),
        judged("Tensor.relu_", "0.forward.output.0"),
        judged("Torch.argmax", "0.forward.output.0", whole, whole),
        judged("Torch.exp", "0.forward.output.0", reference.double(), reference.double()),
        skipped("Torch.to.0.forward.output.0", "moves data"),
    ]


@pytest.fixture
def files(tmp_path):
    return details(tmp_path / "npu.csv", results(3)), details(tmp_path / "gpu.csv", results(0.1))


def by_name(compared):
    return {result.name.rpartition(".output")[0]: result for result in compared.results}


def test_every_result_is_judged_by_its_standard(files):
    found = by_name(compare_checks(*files))

    judged = {name: (str(result.standard or ""), str(result.status)) for name, result in found.items()}
    assert judged == {
        "Functional.softmax.0.forward": ("benchmark", "error"),
        "Functional.softmax.0.backward": ("benchmark", "pass"),
        "Torch.add.0.forward": ("absolute threshold", "error"),
        "Functional.linear.1.forward": ("ULP", "error"),
        "Functional.conv2d.0.forward": ("thousandth", "error"),
        "Tensor.relu_.0.forward": ("binary consistency", "error"),
        "Torch.argmax.0.forward": ("binary consistency", "pass"),
        "Torch.exp.0.forward": ("", "SKIP"),
        "Torch.to.0.forward": ("", "SKIP"),
    }


def test_a_check_beside_itself_passes_where_the_baseline_counts(files):
    found = by_name(compare_checks(files[0], files[0]))

    assert str(found["Functional.softmax.0.forward"].status) == "pass"
    ratios = found["Functional.softmax.0.forward"].result.metrics
    assert {name: judged.number for name, judged in ratios.items()} == dict.fromkeys(ratios, 1.0)


def test_directions_of_a_call_are_joined(files):
    calls = {call.name: call for call in compare_checks(*files).calls}

    assert (str(calls["Functional.softmax.0"].forward), str(calls["Functional.softmax.0"].backward)) == (
        "error",
        "pass",
    )
    assert calls["Torch.add.0"].backward is None


def test_ratios_are_those_of_the_errors(files):
    tested, beside = results(3)[0].metrics, results(0.1)[0].metrics

    found = by_name(compare_checks(*files))["Functional.softmax.0.forward"].result.metrics

    assert found["rmse"].number == pytest.approx(tested.rmse / beside.rmse, rel=1e-8)
    assert found["max_relative"].number == pytest.approx(tested.max_relative / beside.max_relative, rel=1e-8)


def test_a_result_that_the_baseline_lacks_is_judged_if_it_can_be(tmp_path, files):
    beside = details(tmp_path / "few.csv", results(0.1)[1:2])

    found = by_name(compare_checks(files[0], beside))

    assert str(found["Functional.softmax.0.forward"].status) == "SKIP"
    assert "baseline" in found["Functional.softmax.0.forward"].message
    assert str(found["Torch.add.0.forward"].status) == "error"


def test_msprobe_s_files_are_read(tmp_path, files):
    """A byte order mark, Chinese headers, blanks of one space, and of each row the metrics of one method alone."""
    paths = []
    for name, judgements in (("a.csv", results(3)), ("b.csv", results(0.1))):
        rows = [[cell or " " for cell in judgement.row()[:23]] for judgement in judgements]
        for row in rows:
            row[15:21] = [" "] * 6
        with (tmp_path / name).open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file).writerows([MSPROBE_HEADER, *rows])
        paths.append(tmp_path / name)

    found = by_name(compare_checks(*paths))

    assert (str(found["Torch.add.0.forward"].standard), str(found["Torch.add.0.forward"].status)) == (
        "benchmark",
        "error",
    )


def test_the_command_writes_both_tables(tmp_path, files, capsys):
    code = cli.main(
        ["api_precision_compare", "-npu", str(files[0]), "-gpu", str(files[1]), "-o", str(tmp_path / "out")]
    )

    said = capsys.readouterr().out
    (result,) = (tmp_path / "out").glob("api_precision_compare_result_*.csv")
    (full,) = (tmp_path / "out").glob("api_precision_compare_details_*.csv")
    rows, cells = (list(csv.reader(path.read_text().splitlines())) for path in (result, full))
    assert code == 0
    assert "error: Functional.softmax.0, forward\n" in said
    assert "8 calls, 9 results: 2 pass, 5 error, 2 SKIP" in said
    assert rows[0] == list(RESULT_COLUMNS)
    assert rows[1][:3] == ["Functional.softmax.0", "error", "pass"]
    assert (cells[0], len(cells), len(DETAILS_COLUMNS)) == (list(DETAILS_COLUMNS), 10, 28)
    assert {len(row) for row in cells} == {len(DETAILS_COLUMNS)}


@pytest.mark.parametrize(("word", "code"), [("error", 1), ("never", 0)])
def test_the_exit_code_is_asked_for(tmp_path, files, word, code):
    words = ["-npu", str(files[0]), "-gpu", str(files[1]), "-o", str(tmp_path), "--fail-on", word]

    assert cli.main(["api_precision_compare", *words]) == code


def test_what_is_no_details_file_is_refused(tmp_path, files):
    (tmp_path / "other.csv").write_text("API name,Forward Test Success\n")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    stranger = details(tmp_path / "stranger.csv", [skipped("Torch.cos.0.forward.output.0", "")])

    with pytest.raises(DamagedFileError, match="23 columns"):
        compare_checks(tmp_path / "other.csv", files[1])
    with pytest.raises(DamagedFileError, match="csv"):
        compare_checks(files[0], tmp_path / "bytes.csv")
    with pytest.raises(RunNotFoundError, match="does not exist"):
        compare_checks(tmp_path / "none.csv", files[1])
    with pytest.raises(RunNotFoundError, match="directory"):
        compare_checks(tmp_path, files[1])
    with pytest.raises(ConfigError, match="share no result"):
        compare_checks(stranger, files[1])


def test_it_needs_no_torch():
    code = "import sys, torchparity.check.two_checks; print('torch' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def with_ranks(path, *judgements_of_ranks):
    """Write the details of a check of several ranks."""
    rows = [
        [*judgement.row(), "0", str(rank)]
        for rank, judgements in enumerate(judgements_of_ranks)
        for judgement in judgements
    ]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[*DETAILS_HEADER, "Step", "Rank"], *rows])
    return path


def test_calls_of_several_ranks_are_judged_each_beside_its_own(tmp_path, capsys):
    candidate = with_ranks(tmp_path / "npu.csv", results(0.1), results(3))
    baseline = with_ranks(tmp_path / "gpu.csv", results(0.1), results(0.1))

    compared = compare_checks(candidate, baseline)
    cli.main(["api_precision_compare", "-npu", str(candidate), "-gpu", str(baseline), "-o", str(tmp_path)])

    wrong = {call.place for call in compared.calls if call.name == "Functional.softmax.0" and call.forward == "error"}
    assert wrong == {("0", "1")}
    assert len(compared.calls) == 16
    assert "error: step 0, rank 1: Functional.softmax.0, forward\n" in capsys.readouterr().out
    (table,) = tmp_path.glob("api_precision_compare_result_*.csv")
    assert table.read_text().splitlines()[0].endswith("Step,Rank")


def test_a_file_without_ranks_is_paired_by_name_alone(tmp_path):
    candidate = with_ranks(tmp_path / "npu.csv", results(3))

    compared = compare_checks(candidate, details(tmp_path / "gpu.csv", results(0.1)))

    assert {result.message for result in compared.results if str(result.status) == "error"} == {""}
