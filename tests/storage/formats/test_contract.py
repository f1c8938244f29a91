"""Every tensor format keeps the whole contract of storage/formats."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from torchparity import HostTensor, TensorLeaf, plugins
from torchparity.errors import DamagedFileError, ParityError, UnsafeFileError

FORMATS = plugins.names("storage.formats")
WRITTEN = ["pt", "safetensors"]
TENSORS = {
    "Torch.exp.0.forward.input.0": HostTensor.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4)),
    "Torch.exp.0.forward.output.0": HostTensor.from_numpy(np.array([1, -2, 3], np.int64)),
    "Torch.exp.1.forward.output.0": HostTensor.from_numpy(np.array(2.5)),
}


def leaf_of(tensor, data_name, place=None):
    return TensorLeaf(dtype=tensor.dtype, shape=tensor.shape, data_name=data_name, stored_in=place)


def stored_in(folder, name):
    """Store the tensors in a folder, as whoever writes this format does; return their leaves."""
    if name == "pkl":  # written by ptdbg alone
        for item, tensor in TENSORS.items():
            np.save(folder / f"{item}.npy", tensor.array)
        return [leaf_of(tensor, f"{item}.npy") for item, tensor in TENSORS.items()]
    sink = plugins.load("storage.formats", name).sink(folder)
    places = [sink.put(item, tensor) for item, tensor in TENSORS.items()]
    sink.close()
    return [leaf_of(tensor, *place) for tensor, place in zip(TENSORS.values(), places, strict=True)]


def files_in(folder):
    return [file for file in folder.rglob("*") if file.is_file()]


def test_storage_has_three_tensor_formats():
    assert FORMATS == ["pkl", "pt", "safetensors"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_tensor_format_keeps_the_contract(name, tmp_path):
    plugin = plugins.load("storage.formats", name)
    leaves = stored_in(tmp_path, name)

    assert plugin.suffix.startswith(".")
    assert isinstance(plugin.bare_nan, bool)
    assert {file.suffix for file in files_in(tmp_path)} == {plugin.suffix}
    source = plugin.source(tmp_path)
    for leaf, written in zip(leaves, TENSORS.values(), strict=True):
        assert source.look(leaf) is None
        for verify in (True, False):
            read = source.read(leaf, verify=verify)
            assert (read.dtype, read.shape) == (written.dtype, written.shape)
            assert np.array_equal(read.array, written.array)


@pytest.mark.parametrize("name", FORMATS)
def test_a_stored_tensor_is_what_is_read_and_knows_its_checksum(name, tmp_path):
    leaves = stored_in(tmp_path, name)
    source = plugins.load("storage.formats", name).source(tmp_path)

    for leaf, written in zip(leaves, TENSORS.values(), strict=True):
        stored = source.stored(leaf)
        mapped = stored.map()
        assert np.array_equal(mapped.tensor.array, written.array)
        assert np.array_equal(stored.verified().array, written.array)
        assert mapped.raw.tobytes() == written.raw().tobytes()
        if name == "pkl":  # ptdbg stored none
            assert stored.crc32 is None
        else:
            assert stored.crc32 == zlib.crc32(written.raw())
            stored.check(stored.crc32)
            with pytest.raises(DamagedFileError):
                stored.check(stored.crc32 ^ 1)


@pytest.mark.parametrize("name", FORMATS)
def test_a_missing_tensor_is_noticed_by_every_method(name, tmp_path):
    leaf, *_ = stored_in(tmp_path, name)
    for file in files_in(tmp_path):
        file.unlink()
    source = plugins.load("storage.formats", name).source(tmp_path)

    for method in (source.look, source.stored, lambda leaf: source.read(leaf, verify=False)):
        with pytest.raises(ParityError, match="does not exist"):
            method(leaf)


@pytest.mark.parametrize("name", FORMATS)
def test_a_tensor_that_is_not_the_one_recorded_is_refused(name, tmp_path):
    leaf, *_ = stored_in(tmp_path, name)
    source = plugins.load("storage.formats", name).source(tmp_path)

    for other in (
        TensorLeaf(dtype=leaf.dtype, shape=(9,), data_name=leaf.data_name, stored_in=leaf.stored_in),
        TensorLeaf(dtype="torch.int32", shape=leaf.shape, data_name=leaf.data_name, stored_in=leaf.stored_in),
    ):
        with pytest.raises(DamagedFileError):
            source.read(other, verify=False)
        with pytest.raises(DamagedFileError):
            source.stored(other)


@pytest.mark.parametrize("name", FORMATS)
def test_a_link_is_not_followed_by_any_method(name, tmp_path):
    folder = tmp_path / "tensors"
    folder.mkdir()
    leaf, *_ = stored_in(folder, name)
    for file in files_in(folder):
        file.rename(tmp_path / file.name)
        file.symlink_to(tmp_path / file.name)
    source = plugins.load("storage.formats", name).source(folder)

    for method in (source.look, source.stored, lambda leaf: source.read(leaf, verify=True)):
        with pytest.raises(UnsafeFileError, match="symbolic link"):
            method(leaf)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_says_whether_it_can_be_written(name):
    plugin = plugins.load("storage.formats", name)

    if name in WRITTEN:
        assert plugin.prepare_to_write() is None
    else:
        with pytest.raises(ParityError, match="can only be read"):
            plugin.prepare_to_write()


@pytest.mark.parametrize("name", WRITTEN)
def test_a_checksum_that_is_known_already_is_the_one_that_is_stored(name, tmp_path):
    plugin = plugins.load("storage.formats", name)
    sink = plugin.sink(tmp_path)
    item, tensor = next(iter(TENSORS.items()))

    place = sink.put(item, tensor, crc32=zlib.crc32(tensor.raw()))
    sink.close()

    stored = plugin.source(tmp_path).stored(leaf_of(tensor, *place))
    assert stored.crc32 == zlib.crc32(tensor.raw())
    assert np.array_equal(stored.verified().array, tensor.array)


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_abandoned_leaves_nothing_half_written(name, tmp_path):
    plugin = plugins.load("storage.formats", name)
    sink = plugin.sink(tmp_path)
    places = [sink.put(item, tensor) for item, tensor in TENSORS.items()]

    sink.abandon()

    source = plugin.source(tmp_path)
    assert not list(tmp_path.rglob("*.part"))
    for file in files_in(tmp_path):
        assert file.suffix == plugin.suffix
    for (data_name, place), tensor in zip(places, TENSORS.values(), strict=True):
        if (tmp_path / (place.file if place else data_name)).exists():  # it was complete
            assert np.array_equal(source.read(leaf_of(tensor, data_name, place), verify=True).array, tensor.array)
