"""The .pt reader: what torch.save writes, and nothing that runs."""

from __future__ import annotations

import io
import pickle
import time
import zipfile

import numpy as np
import pytest
import torch

from torchparity import from_torch
from torchparity.errors import DamagedFileError, UnsafeFileError
from torchparity.storage.pickles.pt_files import file_name, read_pt


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(torch.randn(3, 4), id="plain"),
        pytest.param(torch.randn(3, 4).t(), id="transposed"),
        pytest.param(torch.randn(3, 1).expand(3, 5), id="expanded"),
        pytest.param(torch.randn(10)[3:7], id="offset"),
        pytest.param(torch.tensor(2.5), id="0-d"),
        pytest.param(torch.empty(0, 3), id="empty"),
        pytest.param(torch.randn(4, requires_grad=True), id="requires-grad"),
        pytest.param(torch.nn.Parameter(torch.randn(4)), id="parameter"),
        pytest.param(torch.randn(3, dtype=torch.complex64).conj(), id="conjugate-view"),
        pytest.param(torch.randn(3, dtype=torch.complex64).conj().imag, id="negative-view"),
        pytest.param(torch.randn(5).to(torch.float8_e4m3fn), id="fp8"),
        pytest.param(torch.arange(5).to(torch.uint16), id="uint16"),
        pytest.param(torch.randn(5).bfloat16(), id="bf16"),
        pytest.param(torch.tensor([True, False]), id="bool"),
    ],
)
def test_what_torch_saves_is_read(tensor, tmp_path):
    path = tmp_path / "t.pt"
    torch.save(tensor, path)

    ours = read_pt(path)
    theirs = from_torch(tensor)

    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert np.array_equal(ours.raw(), theirs.raw())


class Command:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def hostile_pt(path, payload: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("t/data.pkl", payload)
        archive.writestr("t/data/0", b"\0" * 64)
        archive.writestr("t/version", b"3")


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    ("function", "argument"),
    [("os.system", "touch pwned"), ("builtins.eval", "open('pwned', 'w')"), ("subprocess.Popen", "true")],
)
def test_a_pickle_that_runs_code_is_refused_by_name(function, argument, protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module, name = function.rsplit(".", 1)
    target = getattr(__import__(module), name)
    hostile_pt(tmp_path / "t.pt", pickle.dumps(Command(target, argument), protocol=protocol))

    with pytest.raises(UnsafeFileError, match="nothing was run") as raised:
        read_pt(tmp_path / "t.pt")

    assert name in str(raised.value)
    assert not (tmp_path / "pwned").exists()


def test_code_hidden_behind_a_good_tensor_is_refused(tmp_path):
    import os

    buffer = io.BytesIO()
    torch.save(torch.ones(2), buffer)
    with zipfile.ZipFile(buffer) as archive:
        good = next(archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))
    evil = pickle.dumps(Command(os.system, "true"), protocol=2)[2:-1]
    hostile_pt(tmp_path / "t.pt", good[:-1] + evil + b".")

    with pytest.raises(UnsafeFileError, match=r"system"):
        read_pt(tmp_path / "t.pt")


def test_a_compressed_entry_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t/data.pkl", b"\0" * (64 << 20))

    with pytest.raises(UnsafeFileError, match="compressed"):
        read_pt(tmp_path / "bomb.pt")


def saved_with(tmp_path, *, offset=0, shape=(2,), stride=(1,)):
    """Write a .pt whose pickle claims this geometry over a storage of two floats."""

    class Claim:
        def __reduce__(self):
            return torch._utils._rebuild_tensor_v2, (Storage(), offset, shape, stride, False, {})

    class Storage:
        pass

    class Pickler(pickle.Pickler):
        def persistent_id(self, thing):
            return ("storage", torch.FloatStorage, "0", "cpu", 2) if isinstance(thing, Storage) else None

    buffer = io.BytesIO()
    Pickler(buffer, protocol=2).dump(Claim())
    hostile_pt(tmp_path / "t.pt", buffer.getvalue())
    return tmp_path / "t.pt"


@pytest.mark.parametrize(
    "geometry",
    [
        pytest.param({"shape": (17,)}, id="more-than-the-bytes"),
        pytest.param({"shape": (1 << 62, 1 << 62), "stride": (0, 0)}, id="huge-and-expanded"),
        pytest.param({"shape": (1 << 40,), "stride": (0,)}, id="a-bomb-of-stride-0"),
        pytest.param({"offset": -1}, id="negative-offset"),
        pytest.param({"offset": 1 << 70}, id="huge-offset"),
        pytest.param({"shape": (-2,)}, id="negative-size"),
        pytest.param({"stride": (-1,)}, id="negative-stride"),
        pytest.param({"shape": (0, 1 << 100), "stride": (1, 1)}, id="empty-but-huge"),
        pytest.param({"shape": (1,) * 90, "stride": (1,) * 90}, id="too-many-dimensions"),
        pytest.param({"shape": (2.0,)}, id="fractional-size"),
        pytest.param({"stride": (1, 1)}, id="stride-of-another-rank"),
    ],
)
def test_a_geometry_that_does_not_fit_is_refused(geometry, tmp_path):
    with pytest.raises(DamagedFileError, match=r"t\.pt"):
        read_pt(saved_with(tmp_path, **geometry))


def test_nested_references_without_end_are_refused_at_once(tmp_path):
    # A tuple of twice the one before, sixty times: 2**60 leaves in 300 bytes.
    shape = b"K\x02\x85q\x00" + b"".join(b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(60))
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x02tQ"
    rest = b"K\x00" + shape + b"K\x01\x85\x89}"
    payload = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + rest + b"tR."
    hostile_pt(tmp_path / "t.pt", payload)

    with pytest.raises(DamagedFileError, match="shape or stride is not one"):
        read_pt(tmp_path / "t.pt")


def test_many_marks_take_no_quadratic_time(tmp_path):
    hostile_pt(tmp_path / "t.pt", b"\x80\x02" + b"N" * 300_000 + b"(t" * 300_000 + b".")
    began = time.process_time()

    with pytest.raises(DamagedFileError):
        read_pt(tmp_path / "t.pt")

    assert time.process_time() - began < 20  # quadratic would be hours


@pytest.mark.filterwarnings("ignore:B?Complex(Half|32) support is experimental")
def test_a_conjugate_view_of_halves_is_read(tmp_path):
    tensor = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64).to(torch.complex32).conj()
    torch.save(tensor, tmp_path / "t.pt")

    assert read_pt(tmp_path / "t.pt").numbers().tolist() == [1 - 2j, 3 + 4j]


def test_a_flipped_bit_in_the_description_is_noticed(tmp_path):
    path = tmp_path / "t.pt"
    torch.save(torch.arange(12.0).reshape(3, 4), path)
    content = bytearray(path.read_bytes())
    at = content.find(b"K\x03K\x04")
    content[at + 1] ^= 1
    path.write_bytes(content)

    with pytest.raises(DamagedFileError, match="description has changed"):
        read_pt(path)


def test_an_entry_that_is_there_twice_is_refused(tmp_path):
    torch.save(torch.ones(2), tmp_path / "t.pt")
    with zipfile.ZipFile(tmp_path / "t.pt") as archive:
        name = next(name for name in archive.namelist() if name.endswith("data/0"))
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(tmp_path / "t.pt", "a") as archive:
        archive.writestr(name, np.full(2, 9, np.float32).tobytes())

    with pytest.raises(UnsafeFileError, match="twice"):
        read_pt(tmp_path / "t.pt")


def test_a_file_of_several_tensors_is_refused_in_words(tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "t.pt")

    with pytest.raises(DamagedFileError, match="it holds a dict, not one tensor"):
        read_pt(tmp_path / "t.pt")


def test_a_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "t.pt"
    torch.save(torch.arange(64.0), path)
    content = bytearray(path.read_bytes())
    content[content.find(np.float32(63).tobytes())] ^= 1
    path.write_bytes(content)

    with pytest.raises(DamagedFileError, match="have changed since they were written"):
        read_pt(path)


def test_a_file_that_was_saved_without_checksums_is_read(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(torch.arange(64.0), tmp_path / "t.pt")
    finally:
        torch.serialization.set_crc32_options(True)

    assert read_pt(tmp_path / "t.pt").array.tolist() == list(range(64))


def test_the_old_format_is_refused_in_words(tmp_path):
    torch.save(torch.ones(2), tmp_path / "t.pt", _use_new_zipfile_serialization=False)

    with pytest.raises(DamagedFileError, match="not a zip file"):
        read_pt(tmp_path / "t.pt")


def test_file_names_are_safe_short_and_distinct():
    names = ["a" * 300, "a" * 301, "x/y", "x\\y", "..", "Module.层.Linear.forward.0.input.0" * 12, "a\0b"]

    files = [file_name(name) for name in names]

    assert len(set(files)) == len(files)
    for file in files:
        assert len(file.encode()) <= 255
        assert not set(file) & set("/\\\0")
