"""Small runs to work on, and what tests ask of a run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from torchparity import HostTensor, Record, RunPart, RunWriter, TensorLeaf, open_run
from torchparity.kernels import reference
from torchparity.records import StackGroup, ValueLeaf


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


def write_ptdbg(rank_folder: Path, stem: str = "dump", *, bfloat16: bool = False) -> dict[str, Any]:
    """Write what ptdbg 2 to 6 write for a conv2d and the backward of a relu."""
    rng = np.random.default_rng(0)
    arrays = {
        "Functional_conv2d_1_forward_input.0": rng.normal(size=(2, 3)).astype(np.float32),
        "Functional_conv2d_1_forward_input.2.1": np.arange(4, dtype=np.int64),
        "Functional_conv2d_1_forward_output.0": rng.normal(size=(5,)).astype(np.float32),
        "Functional_relu_0_backward_input.0": np.ones((), np.float32),
    }
    dtypes = {
        np.dtype(np.float32): "torch.bfloat16" if bfloat16 else "torch.float32",
        np.dtype(np.int64): "torch.int64",
    }
    lines = []
    (rank_folder / stem).mkdir(parents=True)
    for name, array in arrays.items():
        np.save(rank_folder / stem / f"{name}.npy", array)
        summary = [float(array.max()), float(array.min()), float(array.mean())]
        lines.append([name, 1, [], dtypes[array.dtype], list(array.shape), summary])
    lines.insert(1, ["Functional_conv2d_1_forward_input.1", 1, [], "<class 'int'>", "[]", [3, 3, 3]])
    lines.insert(0, ["Functional_conv2d_1_forward_stack_info", [["net.py", "12", "forward", "x = self.conv(x)"]]])
    (rank_folder / f"{stem}.pkl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return arrays


def values(path: Path, record: str, role: str = "input_args", place: int = 0) -> list[Any]:
    """Return the values of one tensor of a record."""
    part = open_run(path).part()
    return part.tensor(getattr(part.records[record], role)[place]).array.tolist()


def weights_of_linear(path: Path, level: str) -> list[TensorLeaf]:
    """Return what was recorded of the weight at each call of an nn.Linear."""
    records = open_run(path).part().records
    if level == "L1":
        return [record.input_args[1] for name, record in records.items() if re.fullmatch(r".*linear.\d.forward", name)]
    return [record.parameters["weight"] for name, record in records.items() if ".Linear.forward" in name]


def records_of(path: Path, step: int = 0) -> dict[str, Record]:
    """Return the records of one step by name."""
    return open_run(path).part(step=step).records


def names_of(path: Path, direction: str | None = None) -> list[str]:
    """Return the names of a run's records, of one direction where it is given."""
    return [name for name, record in records_of(path).items() if direction in (None, record.direction)]


def stored_records(part: RunPart) -> tuple[list[str], list[str]]:
    """Return the names of the records all of whose tensors are stored, and of those that have some."""
    whole, some = [], []
    for name, record in part.records.items():
        tensors = [item.leaf for item in record.items() if isinstance(item.leaf, TensorLeaf)]
        if tensors and all(leaf.stored_in for leaf in tensors):
            whole.append(name)
        if any(leaf.stored_in for leaf in tensors):
            some.append(name)
    return whole, some
