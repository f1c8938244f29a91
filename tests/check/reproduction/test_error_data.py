"""What failed is saved as a run that fails again, and as a script that shows it with torch alone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from tests.check.recorded_calls import recorded_cases
from torchparity import open_run
from torchparity.check.cases import cases_of
from torchparity.check.checking import check_case, judge_performed
from torchparity.check.judging import Status
from torchparity.check.reproduction import ErrorData

CPU = torch.device("cpu")
WRONG = """
import runpy, sys, torch
library = torch.library.Library("aten", "IMPL")
def softplus(x, beta=1, threshold=20):
    return (x * beta).exp().log1p() / beta * (1.01 if x.dtype == torch.float32 else 1)
library.impl("softplus", softplus, "CPU")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The error data of a call that is right here: its script must fail with a wrong kernel alone."""
    folder = tmp_path_factory.mktemp("saved")
    values = torch.randn(6, 5, requires_grad=True)

    def work():
        torch.nn.functional.softplus(values, beta=2.0).sum().backward()
        torch.where(values > 0, values, float("-inf")).amax(dim=(0, 1))

    checked = [check_case(case, CPU) for case in recorded_cases(work).values()]
    with ErrorData(folder, "cpu") as data:
        for each in checked:
            assert each.performed is not None
            details = [type(row)(name=row.name, status=Status.ERROR) for row in each.result.details]
            data.add(type(each.result)(each.result.name, Status.ERROR, None, "", tuple(details)), each.performed)
    return folder


def script(saved, name, *before):
    path = saved / "scripts" / f"{name}.py"
    command = [sys.executable, "-W", "ignore", *before, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_script_says_that_a_right_kernel_passes(saved):
    done = script(saved, "Functional.softplus.0")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Functional.softplus.0.forward.output.0: pass",
        "Functional.softplus.0.backward.output.0: pass",
    ]


def test_a_script_says_that_a_wrong_kernel_is_an_error(saved):
    done = script(saved, "Functional.softplus.0", "-c", WRONG)

    assert done.returncode == 1
    assert "Functional.softplus.0.forward.output.0: error" in done.stdout


def test_every_script_runs_and_has_fewer_than_60_lines(saved):
    scripts = sorted((saved / "scripts").glob("*.py"))

    assert len(scripts) >= 4
    for path in scripts:
        assert len(path.read_text().splitlines()) < 60
        assert "torchparity" not in path.read_text()
        assert script(saved, path.stem).returncode == 0, path


def test_the_folder_is_a_run_with_the_values_that_were_used(saved):
    part = open_run(saved).part()

    cases = {case.name: case for case in cases_of(part)}
    again = check_case(cases["Functional.softplus.0"], CPU)

    assert again.performed is not None and again.performed.call.arguments.is_real
    assert again.result.forward is Status.PASS and again.result.backward is Status.PASS


def test_calls_of_the_same_name_are_kept_by_step_and_rank(tmp_path):
    case = recorded_cases(lambda: torch.exp(torch.ones(2)))["Torch.exp.0"]
    checked = check_case(case, CPU)
    assert checked.performed is not None
    (tmp_path / "step9" / "rank3").mkdir(parents=True)
    (tmp_path / "step9" / "rank3" / "dump.json").write_text("{}")  # of an earlier check

    with ErrorData(tmp_path, "cpu", has_many_parts=True) as data:
        for step, rank in ((0, 0), (0, 1), (2, 1)):
            data.add(replace(checked.result, step=step, rank=rank), checked.performed)

    run = open_run(tmp_path)
    assert [(part.step, part.rank) for part in run.parts] == [(0, 0), (0, 1), (2, 1)]
    assert all("Torch.exp.0.forward" in part.records for part in run.parts)
    scripts = {path.name for path in (tmp_path / "scripts").glob("*.py")}
    assert scripts == {f"{place}.Torch.exp.0.py" for place in ("step0.rank0", "step0.rank1", "step2.rank1")}


def _half_that_is_off(fault):
    values = torch.randn(32, 32, generator=torch.Generator().manual_seed(0)).bfloat16()

    def work():
        values[torch.arange(32)]
        torch.exp(values)
        values.argmax(0)

    cases = recorded_cases(work)
    for name in ("Tensor.__getitem__.0", "Torch.exp.0", "Tensor.argmax.0"):
        checked = check_case(cases[name], CPU)
        assert checked.performed is not None and checked.result.status is Status.PASS
        fault(checked.performed.device.outputs)
        yield judge_performed(cases[name], checked.performed), checked.performed


def _off(outputs):
    value = outputs["0"]
    outputs["0"] = (value.double() * 1.03).to(value.dtype) if value.is_floating_point() else (value + 1) % 32


def test_a_script_of_half_precision_judges_by_the_same_rules(tmp_path):
    """The script runs the right kernels; a wrong one is put into it by hand."""
    with ErrorData(tmp_path, "cpu") as data:
        for result, performed in _half_that_is_off(_off):
            assert result.status is Status.ERROR, result
            data.add(result, performed)

    for path in sorted((tmp_path / "scripts").glob("*.py")):
        assert script(tmp_path, path.stem).returncode == 0
        wrong = "t = (lambda v: (v.double() * 1.03).to(v.dtype) if v.is_floating_point() else (v + 1) % 32)"
        text = path.read_text().replace(
            "truth = run(", f"{wrong}\nmine = {{k: t(v) for k, v in mine.items()}}\ntruth = run("
        )
        path.write_text(text)
        done = script(tmp_path, path.stem)
        assert (done.returncode, done.stderr) == (1, ""), path
