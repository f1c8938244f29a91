"""What is written is what is read, bit for bit: every dtype, shape and layout."""

from __future__ import annotations

import math
import tempfile
import warnings

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.bits import same_bits
from torchparity import HostTensor, Record, RunWriter, TensorLeaf, from_torch, open_run, to_torch
from torchparity.records import StackGroup, ValueLeaf
from torchparity.tensors import DTYPES

# Those that the torch at hand has; torch cannot copy packed fours.
TORCH_DTYPES = [
    dtype
    for name in DTYPES
    if isinstance(dtype := getattr(torch, name.removeprefix("torch."), None), torch.dtype) and "float4" not in name
]

shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)

layouts = st.sampled_from(["contiguous", "transposed", "strided", "expanded", "offset"])


def random_bits(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Return a tensor of arbitrary bit patterns: nan payloads, infinities and subnormals come up."""
    size = torch.empty((), dtype=dtype).element_size()
    raw = np.random.default_rng(seed).integers(0, 256, size=math.prod(shape) * size, dtype=np.uint8)
    if dtype == torch.bool:
        raw &= 1
    if raw.size == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(raw).view(dtype).reshape(shape)


def lay_out(base: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "transposed":
        return base.t() if base.ndim == 2 else base.movedim(0, -1) if base.ndim > 2 else base
    if layout == "strided":
        return base[..., ::2] if base.ndim else base
    if layout == "expanded":
        return base.unsqueeze(0).expand(3, *base.shape)
    if layout == "offset":
        return base[1:] if base.ndim and base.shape[0] else base
    return base


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.sampled_from(TORCH_DTYPES), shapes, layouts, st.integers(0, 3)), min_size=1, max_size=6),
    st.sampled_from(["safetensors", "pt"]),
)
def test_tensors_come_back_bit_for_bit(specs, tensor_format):
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.filterwarnings("ignore", message="B?Complex(Half|32) support is experimental")
        tensors = [lay_out(random_bits(dtype, shape, seed), layout) for dtype, shape, layout, seed in specs]
        record = Record(
            name="Torch.cat.0.forward",
            direction="forward",
            input_args=[[TensorLeaf(dtype=str(t.dtype), shape=tuple(t.shape)) for t in tensors]],
        )
        with RunWriter(folder, task="tensor", tensor_format=tensor_format) as writer:
            writer.start_step(0)
            writer.add(record, {f"input.0.{index}": from_torch(tensor) for index, tensor in enumerate(tensors)})

        part = open_run(folder).part()
        read = [to_torch(part.tensor(leaf)) for _, leaf in part.tensors()]

        assert len(read) == len(tensors)
        for written, got in zip(tensors, read, strict=True):
            assert same_bits(written, got)


@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
@pytest.mark.parametrize("tensor_format", ["safetensors", "pt"])
@pytest.mark.filterwarnings("ignore:B?Complex(Half|32) support is experimental")
def test_every_dtype_takes_part(dtype, tensor_format, tmp_path):
    tensor = random_bits(dtype, (3, 4), seed=7)
    leaf = TensorLeaf(dtype=str(dtype), shape=(3, 4))
    with RunWriter(tmp_path, task="tensor", tensor_format=tensor_format) as writer:
        writer.start_step(0)
        writer.add(
            Record(name="Torch.abs.0.forward", direction="forward", input_args=[leaf]), {"input.0": from_torch(tensor)}
        )

    ((_, read),) = open_run(tmp_path).part().tensors()

    assert same_bits(to_torch(open_run(tmp_path).part().tensor(read)), tensor)


@pytest.mark.parametrize("tensor_format", ["safetensors", "pt"])
def test_a_view_stores_only_what_it_shows(tensor_format, tmp_path):
    base = torch.zeros(1 << 20)
    view = base[5:8].view(3, 1).expand(3, 4)
    record = Record(
        name="Torch.abs.0.forward", direction="forward", input_args=[TensorLeaf(dtype="torch.float32", shape=(3, 4))]
    )
    with RunWriter(tmp_path, task="tensor", tensor_format=tensor_format) as writer:
        writer.start_step(0)
        writer.add(record, {"input.0": from_torch(view)})

    stored = sum(file.stat().st_size for file in tmp_path.rglob("dump_tensor_data/*"))

    assert stored < 4096


def test_backward_gradients_and_single_points_have_their_own_items(tmp_path):
    leaf = TensorLeaf(dtype="torch.float32", shape=(1,))
    data = HostTensor.from_numpy(np.ones(1, np.float32))
    records = [
        Record(
            name="Functional.linear.0.backward",
            direction="backward",
            input_args=[leaf],
            output=[leaf, None],
            output_kwargs={"bias": leaf},
        ),
        Record(name="Module.fc.Linear.parameters_grad.0", direction="parameters_grad", gradients={"weight": leaf}),
        Record(name="loss.0.debug", direction="debug", value={"a": [leaf, ValueLeaf("int", 3)], "b": None}),
    ]
    with RunWriter(tmp_path, task="tensor", level="mix") as writer:
        writer.start_step(0)
        for record in records:
            writer.add(record, {item.name: data for item in record.items() if item.leaf == leaf})

    part = open_run(tmp_path).part()

    assert {name for name, _ in part.tensors()} == {
        "Functional.linear.0.backward.input.0",
        "Functional.linear.0.backward.output.0",
        "Functional.linear.0.backward.output.bias",
        "Module.fc.Linear.parameters_grad.0.weight",
        "loss.0.debug.a.0",
    }
    assert (tmp_path / "step0" / "rank0" / "debug.json").is_file()
    assert part.verify() == []


def test_stacks_and_parents_come_back(linear_run):
    part = open_run(linear_run).part()

    assert part.stacks == [
        StackGroup(["Functional.linear.0.forward"], ["File net.py, line 7, in forward, \n return linear(x, w)"])
    ]
    assert part.stack_of("Functional.linear.0.forward")[0].startswith("File net.py")
    assert part.construct == {"Functional.linear.0.forward": "Module.fc.Linear.forward.0"}


@pytest.mark.parametrize("tensor_format", ["safetensors", "pt"])
def test_names_longer_than_a_file_name_are_kept_apart(tensor_format, tmp_path):
    path = ".".join(["layer" * 10] * 8)
    tensors = [HostTensor.from_numpy(np.full(3, value, np.float32)) for value in range(2)]
    with RunWriter(tmp_path, task="tensor", tensor_format=tensor_format) as writer:
        writer.start_step(0)
        for index, tensor in enumerate(tensors):
            record = Record(
                name=f"Module.{path}.Linear.forward.{index}",
                direction="forward",
                input_args=[TensorLeaf(dtype="torch.float32", shape=(3,))],
            )
            writer.add(record, {"input.0": tensor})

    part = open_run(tmp_path).part()

    assert [part.tensor(leaf).array[0] for _, leaf in part.tensors()] == [0, 1]
    assert part.verify() == []
