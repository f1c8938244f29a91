"""Overflows of whole runs: found by their records, judged by the same calls in float64."""

from __future__ import annotations

import json

import pytest
import torch

from torchparity import capture, open_run
from torchparity.overflow.entry import Verdict, overflows_of
from torchparity.storage import open_info_files

CPU = torch.device("cpu")


def record(folder, program, **fields):
    settings = {"overflow_nums": -1} if fields.get("task") == "overflow_check" else {}
    with capture(folder / "run", level="L1", **fields, **settings):
        program()
    return list(overflows_of(open_run(folder / "run").parts, CPU))


def attention():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 8).half() * factor for factor in (200, 200, 1))
    scores = q @ k.transpose(-1, -2)
    return torch.softmax(scores.float(), -1).half() @ v


def mean_in_the_dtype_s_own_range():
    return torch.full((4,), 3e38).bfloat16().mean()  # the sum leaves float32, the mean fits


def root_of_zero():
    torch.sqrt(torch.tensor([0.0, 4.0], requires_grad=True)).sum().backward()


def second_pass():
    made = torch.mul(torch.tensor([1e-4], dtype=torch.float16, requires_grad=True), 6e4)
    made.backward(torch.ones(1).half(), retain_graph=True)
    made.backward(torch.full((1,), 6e4).half())


def infinite_argument():
    torch.exp(torch.tensor([torch.inf])) + 1


@pytest.mark.parametrize("task", ["overflow_check", "tensor", "statistics"])
@pytest.mark.parametrize(
    ("program", "found"),
    [
        pytest.param(attention, [("Tensor.matmul.0", Verdict.NORMAL)], id="attention-in-fp16"),
        pytest.param(mean_in_the_dtype_s_own_range, [("Tensor.mean.0", Verdict.ABNORMAL)], id="a-sum-on-the-way"),
        pytest.param(root_of_zero, [("Torch.sqrt.0.backward", Verdict.NORMAL)], id="backward"),
        pytest.param(second_pass, [("Torch.mul.0.backward#2", Verdict.NORMAL)], id="second-pass"),
        pytest.param(infinite_argument, [], id="handed-on"),
    ],
)
def test_overflows_are_found_and_judged_in_runs_of_every_task(tmp_path, monkeypatch, task, program, found):
    monkeypatch.chdir(tmp_path)
    if found == [] and task == "overflow_check":
        with pytest.raises(Exception, match="holds no run"):
            record(tmp_path, program, task=task)
        return

    assert [(each.name, each.verdict) for each in record(tmp_path, program, task=task)] == found


def test_elements_are_those_that_the_recorded_device_gave(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (overflow,) = record(tmp_path, attention, task="overflow_check")

    part = open_run(tmp_path / "run").part()
    scores = torch.from_numpy(part.tensor(part.records["Tensor.matmul.0.forward"].output[0]).array.copy())
    (finding,) = overflow.findings
    assert finding.count == int((~torch.isfinite(scores)).sum()) > 0
    assert finding.first == tuple((~torch.isfinite(scores)).nonzero()[0].tolist())
    assert finding.largest > finding.limit
    assert "test_runs.py" in overflow.lines()[-1]


@pytest.mark.parametrize("program", [attention, root_of_zero])
def test_forward_info_of_the_task_says_the_same(tmp_path, monkeypatch, program):
    monkeypatch.chdir(tmp_path)
    of_run = record(tmp_path, program, task="overflow_check")

    (forward,) = tmp_path.glob("forward_info_*.json")
    backward = forward.with_name(forward.name.replace("forward", "backward"))
    of_info = list(overflows_of([open_info_files(forward, backward)], CPU))

    assert [(each.name, each.verdict, each.findings) for each in of_info] == [
        (each.name, each.verdict, each.findings) for each in of_run
    ]


def test_of_a_forward_info_without_results_those_that_overflow_are_told(tmp_path):
    def entry(largest):
        tensor = {"type": "torch.Tensor", "dtype": "torch.float16", "shape": [4], "requires_grad": False}
        return {"args": [tensor | {"Max": largest, "Min": largest - 1}] * 2, "kwargs": {}}

    path = tmp_path / "forward_info_0.json"
    path.write_text(json.dumps({"Torch.mul.0": entry(3.0), "Torch.mul.1": entry(3000.0), "Torch.gone.0": entry(1.0)}))

    found = {each.name: each for each in overflows_of([open_info_files(path)], CPU)}

    assert found["Torch.mul.1"].verdict is Verdict.NORMAL
    assert "random data" in found["Torch.mul.1"].remark
    assert "Torch.mul.0" not in found
    assert "no Torch.gone" in found["Torch.gone.0"].reason


def test_an_argument_that_autocast_makes_infinite_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def program():
        weight = torch.ones(2, 2)
        with torch.autocast("cpu", dtype=torch.float16):
            torch.nn.functional.linear(torch.full((1, 2), 1e5), weight)

    (overflow,) = record(tmp_path, program, task="overflow_check")

    assert overflow.verdict is Verdict.NORMAL
    assert "autocast" in overflow.remark


def test_a_call_that_cannot_be_run_alone_has_a_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record(tmp_path, lambda: torch.log(torch.zeros(2)), task="tensor")
    file = next((tmp_path / "run").glob("step0/rank0/dump.json"))
    file.write_text(file.read_text().replace("Torch.log.0", "Torch.vanished.0"))

    (overflow,) = overflows_of(open_run(tmp_path / "run").parts, CPU)

    assert overflow.verdict is None
    assert "cannot be judged: this torch has no Torch.vanished" in overflow.lines()[0]


def test_a_whole_number_beyond_floating_point_is_finite(tmp_path):
    with capture(tmp_path / "run", level="L1", task="statistics"):
        torch.add(torch.ones(2), 5)
    dump = tmp_path / "run" / "step0" / "rank0" / "dump.json"
    dump.write_text(dump.read_text().replace('"value":5', f'"value":{10**400}'))
    assert str(10**400) in dump.read_text()

    assert list(overflows_of(open_run(tmp_path / "run").parts, CPU)) == []
