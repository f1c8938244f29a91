"""Old ptdbg runs: JSON lines under the name .pkl, .npy files beside them."""

from __future__ import annotations

import json
import pickle
import shutil

import numpy as np
import pytest

from tests.support.runs import write_ptdbg
from torchparity import open_run
from torchparity.errors import UnsafeFileError
from torchparity.records import TensorLeaf, ValueLeaf


@pytest.mark.parametrize("place", ["ptdbg_dump_v2.0/rank0", "ptdbg_dump_v4.0/step3/rank1", "rank0", "step1/rank2"])
@pytest.mark.parametrize("stem", ["dump", "api_stack_dump"])
def test_every_layout_opens(place, stem, tmp_path):
    write_ptdbg(tmp_path / place, stem)

    part = open_run(tmp_path).part()

    assert list(part.records) == ["Functional.conv2d.1.forward", "Functional.relu.0.backward"]
    assert part.verify() == []
    assert (part.info.task, part.info.tool) == ("tensor", "ptdbg_ascend")


def test_items_keep_their_places_and_values(tmp_path):
    arrays = write_ptdbg(tmp_path / "rank0")

    part = open_run(tmp_path).part()
    items = {item.name: item.leaf for item in part.record("Functional_conv2d_1_forward").items()}

    assert items["input.1"] == ValueLeaf("int", 3)
    assert items["input.2.0"] is None
    leaf = items["input.0"]
    assert isinstance(leaf, TensorLeaf)
    assert leaf.statistics.max == pytest.approx(arrays["Functional_conv2d_1_forward_input.0"].max())
    assert np.array_equal(part.tensor(leaf).array, arrays["Functional_conv2d_1_forward_input.0"])
    assert part.stack_of("Functional.conv2d.1.forward") == ["File net.py, line 12, in forward, \n x = self.conv(x)"]


def test_bfloat16_that_was_saved_as_float32_comes_back(tmp_path):
    write_ptdbg(tmp_path / "rank0", bfloat16=True)

    part = open_run(tmp_path).part()

    assert {part.tensor(leaf).dtype for _, leaf in part.tensors()} == {"torch.bfloat16", "torch.int64"}


def test_a_real_pickle_is_not_loaded(tmp_path):
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "dump.pkl").write_bytes(pickle.dumps([1, 2]))

    with pytest.raises(UnsafeFileError, match="it was not loaded"):
        _ = open_run(tmp_path).part().records


def test_a_pickled_npy_is_not_loaded(tmp_path):
    write_ptdbg(tmp_path / "rank0")
    target = tmp_path / "rank0" / "dump" / "Functional_conv2d_1_forward_input.0.npy"
    np.save(target, np.array([{"a": 1}], dtype=object), allow_pickle=True)

    problems = open_run(tmp_path).part().verify()

    assert len(problems) == 1
    assert target.name in problems[0]


def test_the_named_file_is_the_one_that_is_read(tmp_path):
    for stem, operator in (("cpu", "relu"), ("npu", "gelu")):
        line = [f"Functional_{operator}_0_forward_input.0", 1, [], "torch.float32", [1], [1.0, 1.0, 1.0]]
        (tmp_path / f"{stem}.pkl").write_text(json.dumps(line) + "\n")

    assert list(open_run(tmp_path / "npu.pkl").part().records) == ["Functional.gelu.0.forward"]
    assert list(open_run(tmp_path / "cpu.pkl").part().records) == ["Functional.relu.0.forward"]


def test_a_run_of_statistics_alone_has_no_tensors(tmp_path):
    write_ptdbg(tmp_path / "rank0")
    shutil.rmtree(tmp_path / "rank0" / "dump")

    part = open_run(tmp_path).part()

    assert part.info.task == "statistics"
    assert part.verify() == []


@pytest.mark.parametrize("item", ["input" + ".9999" * 20, "input" + ".0" * 1500, "input.9999"])
def test_positions_that_would_fill_the_memory_are_refused(tmp_path, item):
    write_ptdbg(tmp_path / "rank0")
    line = [f"Functional_add_0_forward_{item}", 1, [], "torch.float32", [1], [1.0, 1.0, 1.0]]
    with (tmp_path / "rank0" / "dump.pkl").open("a") as file:
        file.write(json.dumps(line) + "\n")

    part = open_run(tmp_path).part()

    assert len(part.records) == 2
    assert len(part.problems) == 1


def test_damaged_lines_are_passed_over_and_said(tmp_path):
    write_ptdbg(tmp_path / "rank0")
    file = tmp_path / "rank0" / "dump.pkl"
    file.write_text(file.read_text() + '["Functional_add_0_forward_input.0", 1\n[]\n{}\n')

    part = open_run(tmp_path).part()

    assert len(part.records) == 2
    assert len(part.problems) == 3
    assert all("dump.pkl: line" in problem for problem in part.problems)
