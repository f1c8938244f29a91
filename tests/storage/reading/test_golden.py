"""Real msprobe runs open, and their tensors are what torch reads."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from torchparity import from_torch, open_run
from torchparity.records import TensorLeaf
from torchparity.storage import record_to_json


@pytest.fixture(scope="module")
def runs(golden):
    return sorted((golden / "runs").iterdir())


def test_every_run_opens_without_a_problem(runs):
    assert len(runs) == 24
    for folder in runs:
        part = open_run(folder).part()
        _, task, level, _ = folder.name.split("-")

        assert part.problems == []
        assert part.info.level == level
        assert part.info.task == ("tensor" if task == "tensor" else "statistics")
        assert list(part.records) == list(json.loads((part.folder / "dump.json").read_text())["data"])
        assert part.stacks
        assert set(part.construct) or level == "L1"


def test_every_tensor_is_what_torch_reads(runs):
    read = 0
    for folder in runs:
        part = open_run(folder).part()
        for name, leaf in part.tensors():
            ours = part.tensor(leaf)
            theirs = from_torch(torch.load(part.tensor_folder / leaf.data_name, weights_only=True))

            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), name
            assert np.array_equal(ours.raw(), theirs.raw()), name
            read += 1
        assert part.verify() == []
    assert read == sum(1 for folder in runs for _ in folder.rglob("*.pt"))


def test_md5_runs_keep_their_checksums(runs):
    for folder in runs:
        tensors = [
            item.leaf
            for record in open_run(folder).part().records.values()
            for item in record.items()
            if isinstance(item.leaf, TensorLeaf)
        ]
        assert all((leaf.checksum is not None) == ("-md5-" in folder.name) for leaf in tensors)


def test_no_leaf_is_lost_or_changed(runs):
    """What we read, written back as JSON, has every key and value of the original."""
    for folder in runs:
        part = open_run(folder).part()
        original = json.loads((part.folder / "dump.json").read_text())["data"]
        for name, record in part.records.items():
            ours = json.loads(json.dumps(record_to_json(record)))
            assert contains(ours, spell_nonfinite(original[name])), name


def spell_nonfinite(value):
    if isinstance(value, dict):
        return {key: spell_nonfinite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [spell_nonfinite(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return {"nan": "nan", "inf": "inf", "-inf": "-inf"}[str(value)]
    return value


def contains(ours, original) -> bool:
    if isinstance(original, dict):
        return isinstance(ours, dict) and all(contains(ours.get(key), value) for key, value in original.items())
    if isinstance(original, list):
        return isinstance(ours, list) and len(ours) == len(original) and all(map(contains, ours, original))
    return ours == original


@pytest.mark.parametrize("rank", ["rank", "rank0", "rank3", "proc123"])
def test_a_moved_and_renamed_run_opens(golden, rank, tmp_path):
    source = golden / "runs" / "conv-tensor-L1-base" / "step0" / "rank"
    moved = tmp_path / "elsewhere" / "step2" / rank
    shutil.copytree(source, moved)

    for path in (tmp_path / "elsewhere", moved.parent, moved, moved / "dump.json"):
        part = open_run(path).part()
        assert part.step == 2
        assert part.rank == {"rank": 0, "rank0": 0, "rank3": 3, "proc123": 123}[rank]
        assert part.verify() == []


def test_a_step_folder_of_any_name_opens(golden, tmp_path):
    shutil.copytree(golden / "runs" / "conv-tensor-L1-base" / "step0", tmp_path / "monday evening")

    assert open_run(tmp_path / "monday evening").part().verify() == []
