"""Comparing tensors by their values: equal ones once, and every file that is used as it should be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torchparity
from torchparity import HostTensor, Record, RunWriter, TensorLeaf
from torchparity.kernels import pairs as pair_kernels

NAMES = [f"Torch.exp.{call}.forward" for call in range(3)]


def write(path, values, tensor_format):
    """Write a run with one record for each array."""
    with RunWriter(path, task="tensor", tensor_format=tensor_format) as writer:
        writer.start_step(0)
        for name, array in zip(NAMES, values, strict=True):
            leaf = TensorLeaf(dtype="torch.float32", shape=array.shape)
            record = Record(name=name, direction="forward", output=[leaf])
            writer.add(record, {"output.0": HostTensor.from_numpy(array)})
    return path


def flip_a_bit(run, record):
    path = next(run.rglob(f"{record}.output.0.pt"))
    content = bytearray(path.read_bytes())
    content[content.find(np.float32(1.5).tobytes())] ^= 1
    path.write_bytes(content)


@pytest.fixture
def compared(monkeypatch):
    """Return the list of pairs that the kernel is given."""
    pairs = []
    kernel = pair_kernels.compare_checked

    def counting(candidate, baseline):
        pairs.append((candidate.array.tolist(), baseline.array.tolist()))
        return kernel(candidate, baseline)

    monkeypatch.setattr(pair_kernels, "compare_checked", counting)
    return pairs


ONE, TWO = np.array([1.5, 2.0], np.float32), np.array([1.5, 3.0], np.float32)


@pytest.mark.parametrize("tensor_format", ["pt", "safetensors"])
def test_equal_pairs_are_compared_once(tensor_format, tmp_path, compared):
    candidate = write(tmp_path / "candidate", [ONE, ONE, ONE], tensor_format)
    baseline = write(tmp_path / "baseline", [ONE, TWO, TWO], tensor_format)

    done = torchparity.compare(candidate, baseline)

    assert done.frame["MaxAbsErr"].to_list() == ["0", "1", "1"]
    assert sorted(compared) == [([1.5, 2.0], [1.5, 2.0]), ([1.5, 2.0], [1.5, 3.0])]


def test_the_same_bytes_in_another_layout_are_another_content(tmp_path, compared):
    square = np.arange(4, dtype=np.float32).reshape(2, 2)
    candidate = write(tmp_path / "candidate", [square, square, square], "pt")
    baseline = write(tmp_path / "baseline", [square] * 3, "pt")
    torch.save(torch.from_numpy(square).t(), next(candidate.rglob(f"{NAMES[1]}.output.0.pt")))

    done = torchparity.compare(candidate, baseline)

    assert done.frame["MaxAbsErr"].to_list() == ["0", "1", "0"]
    assert len(compared) == 1  # a transposed tensor is checked and compared in two passes


def test_a_damaged_file_does_not_spoil_an_equal_one(tmp_path):
    candidate = write(tmp_path / "candidate", [ONE, ONE, ONE], "pt")
    baseline = write(tmp_path / "baseline", [TWO, TWO, TWO], "pt")
    flip_a_bit(candidate, NAMES[0])

    frame = torchparity.compare(candidate, baseline).frame

    assert frame["MaxAbsErr"].to_list() == ["unsupported", "1", "1"]
    assert "have changed since they were written" in frame["Err_message"][0]


def test_a_missing_file_is_a_row_with_a_sentence(tmp_path):
    candidate = write(tmp_path / "candidate", [ONE, ONE, ONE], "pt")
    baseline = write(tmp_path / "baseline", [TWO, TWO, TWO], "pt")
    next(candidate.rglob(f"{NAMES[1]}.output.0.pt")).unlink()

    frame = torchparity.compare(candidate, baseline).frame

    assert frame["MaxAbsErr"].to_list() == ["1", "unsupported", "1"]
    assert "does not exist" in frame["Err_message"][1]


def test_files_without_checksums_are_all_read(tmp_path, compared):
    torch.serialization.set_crc32_options(False)
    try:
        candidate = write(tmp_path / "candidate", [ONE, TWO, ONE], "pt")
        baseline = write(tmp_path / "baseline", [ONE, ONE, TWO], "pt")
    finally:
        torch.serialization.set_crc32_options(True)

    done = torchparity.compare(candidate, baseline)

    assert done.frame["MaxAbsErr"].to_list() == ["0", "1", "1"]
    assert len(compared) == 3
