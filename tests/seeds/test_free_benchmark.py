"""The fifth document: its configuration with every value that it offers, and the columns of free_benchmark.csv."""

from __future__ import annotations

import csv
import json
import logging
import re

import pytest
import torch

from tests.seeds.samples import SEEDS, blocks, needs_seeds
from torchparity import ParityError, PrecisionDebugger

pytestmark = needs_seeds
COLUMNS = ["rank", "pert_mode", "stage", "step", "api_name", "max_rel", "dtype", "shape", "output_index"]
MODES = ["improve_precision", "bit_noise", "add_noise", "change_value", "no_change", "to_cpu"]
TASK = ["scope", "list", "fuzz_device", "pert_mode", "handler_type", "fuzz_level", "fuzz_stage"]
TASK += ["if_preheat", "preheat_step", "max_sample"]


def run(folder, **changed):
    """Train a step under the printed configuration, with other values in its block."""
    (config,) = map(json.loads, blocks(4, "json"))
    config["dump_path"] = str(folder / "dump_path")
    config["free_benchmark"] |= changed
    (folder / "config.json").write_text(json.dumps(config))
    debugger = PrecisionDebugger(config_path=str(folder / "config.json"))
    try:
        debugger.start()
        weights = torch.tensor([1e4 + 1, 1.0], requires_grad=True)
        torch.sub(weights.bfloat16(), 1e4).sum().backward()
        debugger.stop()
        debugger.step()
    finally:
        PrecisionDebugger.close()


def findings(folder):
    with (folder / "dump_path" / "free_benchmark.csv").open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_the_printed_configuration_has_these_fields():
    (config,) = map(json.loads, blocks(4, "json"))

    assert list(config) == ["task", "dump_path", "rank", "step", "level", "free_benchmark"]
    assert list(config["free_benchmark"]) == TASK
    chosen = [config["free_benchmark"][each] for each in ("handler_type", "fuzz_level", "fuzz_stage", "fuzz_device")]
    assert chosen == ["check", "L1", "forward", "npu"]


@pytest.mark.parametrize("mode", MODES)
def test_each_way_to_perturb_is_taken(tmp_path, caplog, mode):
    caplog.set_level(logging.INFO, "torchparity")

    run(tmp_path, pert_mode=mode, fuzz_device="cpu" if mode == "to_cpu" else "npu")

    assert f"Free Benchmark: Perturbation is {mode} of Tensor.sum.0.forward." in caplog.text


def test_a_call_that_is_left_out_is_logged_as_printed(tmp_path, caplog):
    caplog.set_level(logging.INFO, "torchparity")

    run(tmp_path, list=["sub", "sum"], pert_mode="change_value")

    assert re.search(r"Free Benchmark: For \S+, .+\. Cancel perturbation\.", caplog.text)


def test_the_fields_of_a_finding_are_those_of_the_document(tmp_path):
    (document,) = SEEDS.glob("004_*.txt")
    printed = re.findall(r"^\| (\w+) +\| .* 类型。", document.read_text(encoding="utf-8"), re.MULTILINE)

    run(tmp_path, pert_mode="bit_noise", list=["sub"])

    (row,) = findings(tmp_path)
    assert list(row) == printed == COLUMNS
    assert (row["pert_mode"], row["stage"], row["step"]) == ("bit_noise", "forward", "0")
    assert row["api_name"] == "Torch.sub.0.forward"
    assert row["dtype"] == "torch.bfloat16"


def test_the_backward_is_perturbed_where_the_stage_says_so(tmp_path, caplog):
    caplog.set_level(logging.INFO, "torchparity")

    run(tmp_path, fuzz_stage="backward", list=["sub"], pert_mode="bit_noise")

    assert "Perturbation is bit_noise of Torch.sub.0.backward" in caplog.text


@pytest.mark.parametrize("mode", MODES)
def test_fix_is_for_the_two_that_can_verify(tmp_path, mode):
    device = "cpu" if mode == "to_cpu" else "npu"
    if mode in ("improve_precision", "to_cpu"):
        run(tmp_path, handler_type="fix", pert_mode=mode, fuzz_device=device)
        assert not (tmp_path / "dump_path" / "free_benchmark.csv").exists() or not findings(tmp_path)
    else:
        with pytest.raises(ParityError, match="handler_type"):
            run(tmp_path, handler_type="fix", pert_mode=mode, fuzz_device=device)
