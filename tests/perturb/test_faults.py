"""Planted faults are found with no baseline, and the sound API beside each is not."""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch

from tests.support.perturbing import mode_fields, perturbing, product_in_bfloat16, rows_in, wrong_kernel
from tests.support.processes import run_python


def names(folder):
    return [row["api_name"] for row in rows_in(folder)]


def test_a_product_that_is_summed_in_bfloat16_is_found_by_improve_precision(tmp_path):
    left, right = (torch.rand(4, 512).bfloat16() for _ in range(2))
    with perturbing(tmp_path / "sound", pert_mode="improve_precision"):
        torch.matmul(left, right.T)
    with (
        wrong_kernel("mm", product_in_bfloat16),
        perturbing(tmp_path / "wrong", pert_mode="improve_precision"),
    ):
        torch.matmul(left, right.T)

    assert names(tmp_path / "sound") == []
    (row,) = rows_in(tmp_path / "wrong")
    assert (row["rank"], row["pert_mode"], row["stage"], row["step"]) == ("0", "improve_precision", "forward", "0")
    assert (row["api_name"], row["dtype"], row["shape"]) == ("Torch.matmul.0.forward", "torch.bfloat16", "(4, 512)")
    assert row["output_index"] == ""
    assert float(row["max_rel"]) > 0.004


def in_order(values, dtype=None):
    """Add numbers one after the other, in their own precision."""
    return torch.tensor(np.add.accumulate(values.numpy())[-1])


def swallowing():
    """Return numbers of which the first swallows all others."""
    values = torch.ones(20_000)
    values[0] = 2.0**24
    return values


def test_a_sum_of_float32_that_loses_bits_is_found_where_float32_is_raised(tmp_path):
    with perturbing(tmp_path / "sound", raise_float32=True):
        torch.sum(swallowing())
    with wrong_kernel("sum", in_order), perturbing(tmp_path / "wrong", raise_float32=True, list=["sum"]):
        torch.sum(swallowing())

    assert names(tmp_path / "sound") == []
    (row,) = rows_in(tmp_path / "wrong")
    assert (row["api_name"], row["dtype"]) == ("Torch.sum.0.forward", "torch.float32")


def test_a_reduction_that_is_not_deterministic_is_found_by_no_change(tmp_path):
    own = np.random.default_rng(0)

    def total(values, dtype=None):
        order = own.permutation(values.numel())  # as threads that race would take them
        return torch.tensor(np.add.accumulate(values.numpy()[order].astype(np.float16))[-1], dtype=torch.float32)

    values = torch.rand(3000, generator=torch.Generator().manual_seed(0))
    with perturbing(tmp_path / "sound", pert_mode="no_change"):
        torch.sum(values)
    with wrong_kernel("sum", total), perturbing(tmp_path / "wrong", pert_mode="no_change"):
        torch.sum(values)

    assert names(tmp_path / "sound") == []
    assert names(tmp_path / "wrong") == ["Torch.sum.0.forward"]


def test_a_reduction_that_is_not_deterministic_by_last_bits_alone_is_told(tmp_path, capsys):
    own = np.random.default_rng(0)

    def total(values, dtype=None):
        return torch.tensor(np.add.accumulate(values.numpy()[own.permutation(values.numel())])[-1])

    values = torch.rand(3000, generator=torch.Generator().manual_seed(0))
    with wrong_kernel("sum", total), perturbing(tmp_path, pert_mode="no_change"):
        totals = {torch.sum(values).item() for _ in range(10)}

    said = capsys.readouterr().out
    assert len(totals) > 1
    assert names(tmp_path) == []
    assert "not deterministic, but within the thresholds: Torch.sum by " in said


def test_the_closing_line_names_the_farthest_and_what_was_added_to(tmp_path, capsys):
    def cancel():
        with perturbing(tmp_path, pert_mode="bit_noise", list=["sub"]):
            torch.sub(torch.tensor([1.0, 3.0]), torch.tensor([1.0002, 2.0]))
        return capsys.readouterr().out

    first, second = cancel(), cancel()

    assert "1 result beyond the thresholds, the farthest Torch.sub.0.forward in step 0, off by 0.00" in first
    assert "earlier" not in first
    assert "free_benchmark.csv also has rows of an earlier training; see " in second


VALUES = torch.rand(3)


def test_a_check_of_nothing_says_so(tmp_path, capsys):
    with perturbing(tmp_path, pert_mode="improve_precision"):
        torch.exp(VALUES)

    said = capsys.readouterr().out
    assert said.startswith("torchparity: nothing was checked with improve_precision; 1 call left out: ")


@pytest.mark.parametrize("mode", ["bit_noise", "add_noise"])
def test_cancellation_in_a_hand_written_variance_is_found_by_noise(mode, tmp_path):
    statistics = types.SimpleNamespace(
        __name__="statistics",
        in_one_pass=lambda values: (values * values).mean(-1) - values.mean(-1) ** 2,
        in_two_passes=lambda values: (values - values.mean(-1, keepdim=True)).square().mean(-1),
    )
    values = torch.randn(64, 1000) + 1000
    with perturbing(tmp_path, **mode_fields(mode), list=["statistics"]) as debugger:
        for api in ("in_one_pass", "in_two_passes"):
            debugger.register_custom_api(statistics, api)
        statistics.in_one_pass(values)
        statistics.in_two_passes(values)

    assert names(tmp_path) == ["statistics.in_one_pass.0.forward"]


@pytest.mark.parametrize("mode", ["bit_noise", "add_noise"])
def test_the_subtraction_is_named_where_the_variance_is_no_function(mode, tmp_path):
    values = torch.randn(64, 1000) + 1000

    with perturbing(tmp_path, **mode_fields(mode)):
        (values * values).mean(-1) - values.mean(-1) ** 2

    assert names(tmp_path) == ["Tensor.sub.0.forward"]


def test_a_sum_in_which_large_swallows_small_is_found_by_change_value(tmp_path):
    with perturbing(tmp_path / "sound", pert_mode="change_value"):
        torch.sum(swallowing())
    with wrong_kernel("sum", in_order), perturbing(tmp_path / "wrong", pert_mode="change_value"):
        torch.sum(swallowing())

    assert names(tmp_path / "sound") == []
    assert names(tmp_path / "wrong") == ["Torch.sum.0.forward"]


SIMULATED = """
import sys
import torch
from torchparity import NpuBehaviour, PrecisionDebugger, simulate_npu
from torchparity.simulation import WrongEpsilon

simulate_npu(NpuBehaviour(faults=(WrongEpsilon("layer_norm", 1, eps=0.5),)))
debugger = PrecisionDebugger(task="free_benchmark", dump_path=sys.argv[1], pert_mode="to_cpu", fuzz_device="cpu")
values = torch.randn(3, 8).to("npu")
debugger.start()
for _ in range(2):
    torch.nn.functional.layer_norm(values, (8,))
debugger.stop()
debugger.step()
"""


def test_a_wrong_kernel_of_a_device_is_found_by_to_cpu(tmp_path):
    done = run_python(SIMULATED, tmp_path)

    assert done.returncode == 0, done.stderr
    assert names(tmp_path) == ["Functional.layer_norm.1.forward"]


@pytest.mark.gpu
def test_a_wrong_cuda_kernel_is_found_by_to_cpu(tmp_path, cuda):
    values = torch.randn(64, 64, device=cuda)
    with perturbing(tmp_path / "sound", **mode_fields("to_cpu")):
        torch.erf(values)
    with (
        wrong_kernel("erf", lambda values: values.tanh(), "CUDA"),
        perturbing(tmp_path / "wrong", **mode_fields("to_cpu")),
    ):
        torch.erf(values)

    assert names(tmp_path / "sound") == []
    assert names(tmp_path / "wrong") == ["Torch.erf.0.forward"]
