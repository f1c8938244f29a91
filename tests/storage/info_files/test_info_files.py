"""forward_info, backward_info and stack_info: written from a part of a run, read as one."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from torchparity import capture, open_run
from torchparity.errors import DamagedFileError, NotRecordedError, RunNotFoundError
from torchparity.records import TensorLeaf
from torchparity.storage import open_info_files, write_info_files

X = torch.tensor([[1.0, -2.0], [3.0, 0.5]])


@pytest.fixture
def part(tmp_path):
    weight = torch.tensor([[2.0, 1.0], [0.0, -1.0]], requires_grad=True)
    with capture(tmp_path / "run", level="L1", task="tensor"):
        hidden = torch.nn.functional.linear(X, weight)
        torch.clamp(hidden, min=-1.0).sum().backward()
    return open_run(tmp_path / "run").part()


def test_the_three_files_have_the_keys_of_api_accuracy_checker(tmp_path, part):
    write_info_files(tmp_path, 7, [part], real_data=False)

    forward = json.loads((tmp_path / "forward_info_7.json").read_text())
    backward = json.loads((tmp_path / "backward_info_7.json").read_text())
    stacks = json.loads((tmp_path / "stack_info_7.json").read_text())
    assert list(forward) == list(stacks) == ["Functional.linear.0", "Torch.clamp.0", "Tensor.sum.0"]
    assert set(backward) == set(forward)
    assert set(forward["Torch.clamp.0"]) == {"args", "kwargs"}
    assert forward["Torch.clamp.0"]["kwargs"] == {"min": {"type": "float", "value": -1.0}}
    entry = forward["Functional.linear.0"]["args"][1]
    assert (entry["type"], entry["dtype"], entry["shape"]) == ("torch.Tensor", "torch.float32", [2, 2])
    assert (entry["Max"], entry["Min"], entry["requires_grad"]) == (2.0, -1.0, True)
    assert backward["Tensor.sum.0"][0]["Max"] == 1.0
    assert "test_info_files.py" in stacks["Torch.clamp.0"][0]
    assert not (tmp_path / "forward_real_data").exists()


def test_what_is_read_back_are_the_records_that_were_written(tmp_path, part):
    writer = write_info_files(tmp_path, 7, [part], real_data=True)

    read = open_info_files(writer.forward, writer.backward)

    assert read.problems == []
    assert set(read.records) == set(part.records)
    for name, record in part.records.items():
        assert _values(read, read.records[name], "input") == _values(part, record, "input")
    assert read.stack_of("Torch.clamp.0.forward") == part.stack_of("Torch.clamp.0.forward")
    assert read.records["Torch.clamp.0.forward"].input_kwargs == part.records["Torch.clamp.0.forward"].input_kwargs


def _values(part, record, role):
    leaves = [item.leaf for item in record.items() if item.role == role and isinstance(item.leaf, TensorLeaf)]
    assert leaves
    return [np.asarray(part.tensor(leaf).array).tolist() for leaf in leaves]


def test_without_real_data_there_are_statistics_and_no_values(tmp_path, part):
    writer = write_info_files(tmp_path, 7, [part], real_data=False)

    read = open_info_files(writer.forward)

    leaf = read.records["Functional.linear.0.forward"].input_args[0]
    assert (leaf.statistics.max, leaf.statistics.min) == (3.0, -2.0)
    assert read.info.task == "statistics"
    with pytest.raises(NotRecordedError):
        read.tensor(leaf)


def test_two_processes_share_a_folder(tmp_path, part):
    first = write_info_files(tmp_path, 1, [part], real_data=True)
    second = write_info_files(tmp_path, 2, [part], real_data=True)

    for writer in (first, second):
        read = open_info_files(writer.forward, writer.backward)
        assert [name for name, _ in read.values()]
    one, other = (
        set(writer.forward.parent.glob(f"*_real_data/*.{number}.pt")) for writer, number in ((first, 1), (second, 2))
    )
    assert len(one) == len(other) > 0


def test_outputs_are_written_where_asked_for(tmp_path, part):
    writer = write_info_files(tmp_path, 7, [part], real_data=False, outputs=True)

    record = open_info_files(writer.forward).records["Functional.linear.0.forward"]

    assert record.output[0].statistics.max == part.records["Functional.linear.0.forward"].output[0].statistics.max


@pytest.mark.parametrize("call", ["Torch.exp.3", "Torch*exp*3", "Torch_exp_3"])
def test_calls_are_named_with_dots_stars_or_underscores(tmp_path, call):
    path = tmp_path / "forward_info_0.json"
    path.write_text(json.dumps({call: {"args": [{"type": "float", "value": 2.0}], "kwargs": {}}}))

    assert list(open_info_files(path).records) == ["Torch.exp.3.forward"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("[1, 2]", id="a-list"),
        pytest.param('{"task": "statistics", "data": {}}', id="a-dump.json"),
        pytest.param('{"Torch.exp.0": [{"type": "torch.Tensor"}]}', id="a-backward_info"),
        pytest.param('{"Torch.exp.0": {"args": [', id="cut-off"),
    ],
)
def test_what_is_no_forward_info_is_refused_in_one_sentence(tmp_path, content):
    path = tmp_path / "forward_info_0.json"
    path.write_text(content)

    with pytest.raises(DamagedFileError, match="forward_info"):
        open_info_files(path)


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(RunNotFoundError, match="does not exist"):
        open_info_files(tmp_path / "forward_info_0.json")


def test_one_call_that_cannot_be_read_costs_no_other(tmp_path):
    path = tmp_path / "forward_info_0.json"
    good = {"args": [{"type": "int", "value": 1}], "kwargs": {}}
    bad = {"args": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [-1]}], "kwargs": {}}
    path.write_text(json.dumps({"Torch.exp.0": good, "Torch.exp.1": bad, "nonsense": good, "Torch.exp.2": 5}))

    read = open_info_files(path)

    assert list(read.records) == ["Torch.exp.0.forward"]
    assert len(read.problems) == 3
    assert all(str(path) in problem for problem in read.problems)
