"""Shards: split by size, readable by the safetensors library, each content stored once."""

from __future__ import annotations

import numpy as np
import pytest

from torchparity import HostTensor, Record, RunWriter, TensorLeaf, open_run
from torchparity.storage.formats.safetensors import SafetensorsFormat


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
