"""What is written is what is read, bit for bit: every dtype, shape, layout and leaf."""

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
from torchparity.records import GroupLeaf, StackGroup, Statistics, ValueLeaf, describe
from torchparity.storage import record_to_json
from torchparity.storage.encoding.decode_any import record_from_json
from torchparity.storage.encoding.json_text import encode
from torchparity.storage.formats.safetensors import SafetensorsFormat
from torchparity.tensors import DTYPES

TORCH_DTYPES = [
    torch.bool,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex32,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
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
        warnings.filterwarnings("ignore", message="ComplexHalf support is experimental")
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
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
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


def test_the_table_of_dtypes_covers_torch():
    named = {str(value) for value in vars(torch).values() if isinstance(value, torch.dtype)}
    sub_byte = {f"torch.{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)}
    # Quantized, bits and sub-byte integer types hold no values of their own.
    without_values = sub_byte | {name for name in named if any(part in name for part in ("qint", "quint", "bits"))}

    assert named - without_values == set(DTYPES)


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


def test_looking_at_a_tensor_leaves_its_storage_resizable():
    tensor = torch.ones(4)

    from_torch(tensor)
    tensor.untyped_storage().resize_(0)

    assert tensor.untyped_storage().nbytes() == 0


def test_equal_tensors_are_stored_once_and_alike_ones_are_not(tmp_path):
    values = np.arange(1 << 16, dtype=np.float32)
    other = values.copy()
    other[17] += 1
    tensors = {
        "input.0": HostTensor.from_numpy(values),
        "input.1": HostTensor.from_numpy(values.copy().reshape(256, 256)),
        "input.2": HostTensor.from_numpy(other),
        "input.3": HostTensor.from_numpy(values.view(np.int32)),
    }
    leaves = [TensorLeaf(dtype=tensor.dtype, shape=tensor.shape) for tensor in tensors.values()]
    with RunWriter(tmp_path, task="tensor") as writer:
        writer.start_step(0)
        writer.add(Record(name="Torch.stack.0.forward", direction="forward", input_args=leaves), tensors)

    part = open_run(tmp_path).part()
    read = [leaf for _, leaf in part.tensors()]

    assert read[0].stored_in == read[1].stored_in
    assert len({leaf.stored_in for leaf in read}) == 3
    for leaf, written in zip(read, tensors.values(), strict=True):
        assert np.array_equal(part.tensor(leaf).array, written.array)


def test_a_checksum_that_coincides_does_not_merge_two_tensors(tmp_path):
    # Two different 8-byte contents with one CRC-32, found by solving for it below.
    left, right = crc_twins()
    assert left != right
    tensors = {
        f"input.{index}": HostTensor.from_numpy(np.frombuffer(content, np.uint8))
        for index, content in enumerate((left, right))
    }
    leaves = [TensorLeaf(dtype="torch.uint8", shape=(8,)) for _ in tensors]
    with RunWriter(tmp_path, task="tensor") as writer:
        writer.start_step(0)
        writer.add(Record(name="Torch.cat.0.forward", direction="forward", input_args=leaves), tensors)

    part = open_run(tmp_path).part()
    read = [leaf for _, leaf in part.tensors()]

    assert read[0].stored_in.crc32 == read[1].stored_in.crc32
    assert [part.tensor(leaf).array.tobytes() for leaf in read] == [left, right]


def crc_twins() -> tuple[bytes, bytes]:
    """Return two contents with equal CRC-32: it is linear, so XOR with any multiple of its polynomial keeps it."""
    import zlib

    left = bytes(8)
    # CRC(x) ^ CRC(0) is linear in x: eliminate over 64 single-bit changes to find one with no effect.
    basis: dict[int, tuple[int, int]] = {}
    for bit in range(64):
        change = 1 << bit
        effect = zlib.crc32(change.to_bytes(8, "little")) ^ zlib.crc32(left)
        while effect and (top := effect.bit_length()) in basis:
            effect ^= basis[top][0]
            change ^= basis[top][1]
        if not effect:
            return left, change.to_bytes(8, "little")
        basis[effect.bit_length()] = (effect, change)
    raise AssertionError("64 bits cannot all be independent in 32")


def test_shards_are_split_and_open_in_the_safetensors_library(tmp_path):
    from safetensors.numpy import load_file

    from torchparity.storage.shards.shard_writer import ShardSink

    sink = ShardSink(tmp_path, shard_bytes=1000)
    tensors = [HostTensor.from_numpy(np.full(100, value, np.float32)) for value in range(7)]
    places = [sink.put(f"t{index}", tensor)[1] for index, tensor in enumerate(tensors)]
    sink.close()

    shards = sorted(tmp_path.glob("*.safetensors"))

    assert len(shards) == 4
    for place, tensor in zip(places, tensors, strict=True):
        assert np.array_equal(load_file(tmp_path / place.file)[place.key], tensor.array)


@pytest.mark.parametrize("at_once", [1, 3])
def test_shards_that_are_written_at_once_hold_each_content_once(tmp_path, at_once):
    from torchparity.storage.shards.shard_writer import ShardSink

    sink = ShardSink(tmp_path, shard_bytes=100_000, at_once=at_once)
    contents = np.random.default_rng(0).normal(size=(40, 10_000)).astype(np.float32)
    shown = [HostTensor.from_numpy(contents[index % 40]) for index in range(100)]
    places = [sink.put(f"t{index}", tensor)[1] for index, tensor in enumerate(shown)]
    sink.close()

    source = SafetensorsFormat().source(tmp_path)
    assert len(set(places)) == 40
    for place, tensor in zip(places, shown, strict=True):
        leaf = TensorLeaf(dtype="torch.float32", shape=(10_000,), stored_in=place)
        assert np.array_equal(source.read(leaf, verify=True).array, tensor.array)


numbers = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(2**70), 2**70) | st.booleans() | st.none()
leaves = st.one_of(
    st.none(),
    st.builds(
        ValueLeaf,
        st.sampled_from(["int", "bool", "str", "torch.dtype", "torch.device", "Ellipsis"]),
        st.none() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    ),
    st.builds(ValueLeaf, st.just("float"), st.floats()),
    st.builds(ValueLeaf, st.just("complex"), st.tuples(st.floats(), st.floats()).map(list)),
    st.builds(ValueLeaf, st.just("slice"), st.lists(st.none() | st.integers(), min_size=3, max_size=3)),
    st.builds(GroupLeaf, ranks=st.lists(st.integers(0, 99)).map(tuple), id=st.none() | st.text(max_size=4)),
    st.builds(
        TensorLeaf,
        dtype=st.sampled_from(sorted(DTYPES)),
        shape=shapes,
        statistics=st.none() | st.builds(Statistics, max=numbers, min=numbers, mean=numbers, norm=numbers),
        requires_grad=st.none() | st.booleans(),
        checksum=st.none() | st.just("a5305148"),
    ),
)
keys = st.text(min_size=1, max_size=5)
nests = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(nests, max_size=3), st.dictionaries(keys, nests, max_size=3), st.lists(nests, max_size=3), st.booleans()
)
def test_records_survive_their_json(arguments, keywords, output, is_recompute):
    import json

    record = Record(
        name="Torch.add.0.forward",
        direction="forward",
        input_args=arguments,
        input_kwargs=keywords,
        output=output,
        is_recompute=is_recompute,
        seconds=0.5,
    )

    text = encode(record_to_json(record))
    read = record_from_json(record.name, json.loads(text, parse_constant=lambda name: pytest.fail(f"bare {name}")))

    assert encode(record_to_json(read)) == text
    assert [item.name for item in read.items()] == [item.name for item in record.items()]
    assert repr(read) == repr(record)


@pytest.mark.parametrize(
    ("value", "leaf"),
    [
        (3, ValueLeaf("int", 3)),
        (True, ValueLeaf("bool", True)),
        (1.5, ValueLeaf("float", 1.5)),
        ("mean", ValueLeaf("str", "mean")),
        (None, None),
        (1 + 2j, ValueLeaf("complex", [1.0, 2.0])),
        (slice(0, 2), ValueLeaf("slice", [0, 2, None])),
        (..., ValueLeaf("Ellipsis")),
        (torch.float16, ValueLeaf("torch.dtype", "torch.float16")),
        (torch.device("cpu"), ValueLeaf("torch.device", "cpu")),
        (torch.Size([2, 3]), ValueLeaf("torch.Size", [2, 3])),
        (torch.channels_last, ValueLeaf("torch.memory_format", "torch.channels_last")),
        (np.float32(1.5), ValueLeaf("float32", 1.5)),
        (np.float64(1.5), ValueLeaf("float64", 1.5)),
        (np.int8(-3), ValueLeaf("int8", -3)),
        (object(), ValueLeaf("builtins.object")),
        (np.ones((2, 3), np.float32), TensorLeaf(type="numpy.ndarray", dtype="float32", shape=(2, 3))),
        (np.add, ValueLeaf("numpy.ufunc")),
        (slice(np.int64(1), None), ValueLeaf("slice", [1, None, None])),
    ],
)
def test_arguments_that_are_no_tensors_have_a_leaf(value, leaf):
    assert describe(value) == leaf


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
