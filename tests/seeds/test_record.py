"""The record that the fourth document prints: its fields in dump.json, and the names of its items."""

from __future__ import annotations

import json
import re

import pytest
import torch
from torch.nn import functional

import torchparity
from tests.seeds.samples import blocks, needs_seeds

NAME = "Functional.max_pool2d.0.forward"


@needs_seeds
def test_the_printed_record_has_these_fields_and_names(tmp_path):
    with torchparity.capture(tmp_path / "run", task="tensor", level="L1"):
        functional.max_pool2d(torch.ones(1, 64, 14, 14), 3, 2, 1, 1, ceil_mode=False, return_indices=False)
    (file,) = tmp_path.rglob("dump.json")

    record = json.loads(file.read_text())["data"][NAME]

    tensor, kernel, *_ = record["input_args"]
    assert {"type", "dtype", "shape", "Max", "Min", "Mean", "Norm", "requires_grad", "data_name"} <= tensor.keys()
    assert (tensor["type"], tensor["dtype"], tensor["shape"]) == ("torch.Tensor", "torch.float32", [1, 64, 14, 14])
    assert (kernel["type"], kernel["value"]) == ("int", 3)
    for keyword in ("ceil_mode", "return_indices"):
        assert record["input_kwargs"][keyword] == {"type": "bool", "value": False}
    assert record["output"][0]["shape"] == [1, 64, 7, 7]


@needs_seeds
def test_its_items_are_called_as_printed(tmp_path):
    (code,) = [text for text in blocks(3, "yaml") if NAME in text]
    code = code.replace("dytpe", "dtype").replace("torch_float32", "torch.float32")  # its two misprints
    code = re.sub(r",(\s*})", r"\1", code.replace("xxx", "1.0"))
    head = '"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": null'
    (tmp_path / "dump.json").write_text(f'{{{head}, "data": {{{code}}}}}')
    *_, printed = [text.split() for text in blocks(3, "") if text.startswith(f"{NAME}.input.0")]

    record = torchparity.open_run(tmp_path / "dump.json").parts[0].record(NAME)

    assert len(printed) == 8
    assert [f"{NAME}.{item.name}" for item in record.items()] == printed


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize(("level", "name"), [("L0", "Module.relu.ReLU.forward.0"), ("L1", "Functional.relu.0.forward")])
def test_the_levels_and_tasks_that_a_comparison_needs(tmp_path, task, level, name):
    model = torch.nn.Sequential()
    model.add_module("relu", torch.nn.ReLU())
    with torchparity.capture(tmp_path / "run", model=model, task=task, level=level):
        model(torch.ones(2))

    record = torchparity.open_run(tmp_path / "run").parts[0].record(name)

    assert record.output[0].statistics is not None
    assert (record.output[0].data_name is not None) == (task == "tensor")
