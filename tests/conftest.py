"""Shared by all tests: where the recorded msprobe runs are, and a small run to work on."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from torchparity import HostTensor, Record, RunWriter, TensorLeaf
from torchparity.kernels import reference
from torchparity.records import StackGroup, ValueLeaf

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def golden() -> Path:
    folder = Path(os.environ.get("TORCHPARITY_GOLDEN", ROOT.parent / "shared" / "golden"))
    if not folder.is_dir():
        pytest.skip("the recorded msprobe runs are not here; TORCHPARITY_GOLDEN says where they are")
    return folder


def leaf_of(tensor: HostTensor) -> TensorLeaf:
    return TensorLeaf(
        dtype=tensor.dtype, shape=tensor.shape, statistics=reference.statistics(tensor), requires_grad=False
    )


def write_linear_run(path: Path, *, steps: int = 1, rank: int = 0, tensor_format: str = "safetensors") -> Path:
    """Write a run of one `linear` call per step; return its path."""
    rng = np.random.default_rng(0)
    tensors = {
        name: HostTensor.from_numpy(rng.normal(size=shape).astype(np.float32))
        for name, shape in (("input.0", (4, 3)), ("input.1", (5, 3)), ("output.0", (4, 5)))
    }
    with RunWriter(path, task="tensor", rank=rank, tensor_format=tensor_format) as writer:
        for step in range(steps):
            writer.start_step(step)
            record = Record(
                name="Functional.linear.0.forward",
                direction="forward",
                input_args=[leaf_of(tensors["input.0"]), leaf_of(tensors["input.1"]), ValueLeaf("int", 3)],
                output=[leaf_of(tensors["output.0"])],
                seconds=0.25,
            )
            writer.add(record, tensors)
            writer.finish_step(
                stacks=[StackGroup([record.name], ["File net.py, line 7, in forward, \n return linear(x, w)"])],
                construct={record.name: "Module.fc.Linear.forward.0"},
            )
    return path


@pytest.fixture
def linear_run(tmp_path: Path) -> Path:
    return write_linear_run(tmp_path / "run")


@pytest.fixture
def cuda():
    """The first CUDA device; tests that ask for it are marked `gpu`."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device("cuda", 0)
