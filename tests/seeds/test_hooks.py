"""The first document: torch_npu.hooks, with its two samples as they are printed."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
import torch

from tests.seeds.samples import SIMULATED, blocks, needs_seeds, run_sample
from torchparity import ParityError, capture, open_run
from torchparity.comparing.hooks_table import write_hooks_table
from torchparity.compat import hooks
from torchparity.compat.dumping import Dumping
from torchparity.compat.hooks_tools import compare

PRINTED = ["Name", "Npu Tensor Dtype", "Bench Tensor Dtype", "Npu Tensor Shape", "Bench Tensor Shape"]
PRINTED += ["Cosine", "RMSE", "MAPE"]
TORCHVISION = """
import sys, types
from tests.seeds.resnet import resnet50
torchvision = types.ModuleType("torchvision")
torchvision.models, torchvision.datasets, torchvision.transforms = types.SimpleNamespace(resnet50=resnet50), None, None
sys.modules["torchvision"] = torchvision
"""


def table(file):
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


@needs_seeds
def test_the_first_sample_leaves_its_runs_and_its_table(tmp_path):
    code = blocks(0, "python")[0]
    assert "register_acc_cmp_hook(module)" in code
    assert "ModuleOP(" in code
    assert "ModuleOp()" in code
    assert "npu_mpdule_op.pkl" in code
    code = code.replace("ModuleOp()", "ModuleOP()").replace("npu_mpdule_op", "npu_module_op")  # its two misprints

    done = run_sample(SIMULATED + code, tmp_path)

    assert done.returncode == 0, done.stderr
    for name in ("cpu_module_op.pkl", "npu_module_op.pkl"):
        assert "Module.linear_1.Linear.backward.0" in open_run(tmp_path / name).parts[0].records
    rows = table(tmp_path / "module_result.csv")
    assert list(rows[0]) == PRINTED
    (output,) = [row for row in rows if row["Name"] == "Module.linear_1.Linear.forward.0.output.0"]
    assert (output["Npu Tensor Shape"], float(output["RMSE"]), float(output["MAPE"])) == ("[2, 2]", 0, 0)


@needs_seeds
def test_the_misprint_of_the_first_sample_is_answered_with_the_recorded_runs(tmp_path):
    code = blocks(0, "python")[0].replace("ModuleOp()", "ModuleOP()")

    done = run_sample(SIMULATED + code, tmp_path)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(
        "no run was recorded at npu_module_op.pkl. Did you mean 'npu_mpdule_op.pkl'? "
        "Recorded beside it: cpu_module_op.pkl, npu_mpdule_op.pkl."
    )


@needs_seeds
def test_the_second_sample_compares_a_resnet50(tmp_path):
    done = run_sample(SIMULATED + TORCHVISION + blocks(0, "python")[1], tmp_path)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cpu_resnet50_op.pkl").is_dir()
    assert (tmp_path / "npu_resnet50_op.pkl").is_dir()
    rows = table(tmp_path / "resnet50_result.csv")
    convolutions = [row for row in rows if ".Conv2d.forward.0.output.0" in row["Name"]]
    assert len(convolutions) == 53
    assert all(float(row["Cosine"]) > 0.999 for row in convolutions)


def recorded(path, *tensors):
    with capture(path, task="tensor"):
        for tensor in tensors:
            torch.tanh(tensor)


def test_the_metrics_are_those_of_float64(tmp_path):
    torch.manual_seed(0)
    mine = torch.randn(4, 5)
    other = mine + torch.randn(4, 5) / 100
    recorded(tmp_path / "mine", mine)
    recorded(tmp_path / "other", other)

    write_hooks_table(tmp_path / "mine", tmp_path / "other", tmp_path / "result.csv")

    row = table(tmp_path / "result.csv")[0]
    left, right = mine.double().numpy().ravel(), other.double().numpy().ravel()
    cosine = left @ right / math.sqrt((left @ left) * (right @ right))
    assert math.isclose(float(row["Cosine"]), cosine, rel_tol=1e-12)
    assert math.isclose(float(row["RMSE"]), float(np.sqrt(np.mean((left - right) ** 2))), rel_tol=1e-12)
    assert math.isclose(float(row["MAPE"]), float(np.mean(np.abs((left - right) / right))), rel_tol=1e-12)


def test_a_zero_of_the_baseline_leaves_no_percentage_and_says_so(tmp_path):
    recorded(tmp_path / "mine", torch.tensor([1.0, 2.0, 3.0]))
    recorded(tmp_path / "other", torch.tensor([1.0, 0.0, 3.0]))

    write_hooks_table(tmp_path / "mine", tmp_path / "other", tmp_path / "result.csv")

    assert table(tmp_path / "result.csv")[0]["MAPE"] == "nan (1 zero)"


def test_operators_of_one_run_alone_and_of_other_shapes_are_left_out(tmp_path):
    recorded(tmp_path / "mine", torch.ones(2), torch.ones(3), torch.ones(5))
    recorded(tmp_path / "other", torch.ones(2), torch.ones(4))

    write_hooks_table(tmp_path / "mine", tmp_path / "other", tmp_path / "result.csv")

    assert [row["Npu Tensor Shape"] for row in table(tmp_path / "result.csv")] == ["[2]", "[2]"]


def test_gradients_that_add_up_over_two_passes_are_no_difference(tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "_dumping", Dumping())
    layer = torch.nn.Linear(3, 2)
    hooks.register_acc_cmp_hook(layer)
    for name in ("cpu.pkl", "npu.pkl"):
        hooks.set_dump_path(tmp_path / name)
        layer(torch.ones(4, 3)).sum().backward()

    compare(tmp_path / "npu.pkl", tmp_path / "cpu.pkl", tmp_path / "result.csv")

    rows = {row["Name"]: float(row["RMSE"]) for row in table(tmp_path / "result.csv")}
    assert rows["Functional.linear.0.backward.output.1"] == 0
    assert set(rows.values()) == {0}


@pytest.mark.parametrize(("runs", "file"), [(("mine", "mine"), "."), ((None, "mine"), "result.csv")])
def test_what_is_no_run_or_no_file_is_refused_in_one_sentence(tmp_path, runs, file):
    recorded(tmp_path / "mine", torch.ones(2))

    with pytest.raises(ParityError, match=r"compare (needs|takes) the path of"):
        compare(*(run and tmp_path / run for run in runs), tmp_path / file)
