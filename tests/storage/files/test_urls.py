"""Runs on object stores: what is read through a URL is what is read from the folder."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import fsspec
import numpy as np
import pytest

import torchparity
from tests.support.object_store import Store, s3_server
from tests.support.processes import run_python
from tests.support.runs import write_linear_run, write_ptdbg
from torchparity import open_run
from torchparity.errors import ConfigError, DamagedFileError, ParityError, RunNotFoundError, UnsafeFileError
from torchparity.storage import run_path

RECORD = "Functional.linear.0.forward"


@pytest.fixture
def memory(tmp_path):
    """A folder in fsspec's store in memory: a function that puts a local folder there and returns the URL."""
    system = fsspec.filesystem("memory")
    name = f"/{tmp_path.parent.name}-{tmp_path.name}"

    def put(folder: Path) -> str:
        system.put(str(folder), f"{name}/{folder.name}", recursive=True)
        return f"memory:/{name}/{folder.name}"

    yield put
    if system.exists(name):
        system.rm(name, recursive=True)


@pytest.fixture(scope="module")
def s3():
    if find_spec("s3fs") is None or find_spec("moto") is None:
        pytest.skip("s3fs and moto are not installed; `make setup` installs them")
    with s3_server() as store:
        yield store


def values_of(run):
    return {name: tensor.array.tobytes() for name, tensor in open_run(run).part().values()}


@pytest.mark.parametrize("tensor_format", ["safetensors", "pt"])
def test_a_run_in_memory_is_the_run_on_disk(tensor_format, tmp_path, memory):
    path = write_linear_run(tmp_path / "run", steps=2, tensor_format=tensor_format)

    url = memory(path)

    local, remote = open_run(path), open_run(url)
    assert (remote.steps, remote.ranks, str(remote.path)) == ([0, 1], [0], url)
    assert remote.part().records == local.part().records
    assert remote.part().stacks == local.part().stacks
    assert remote.part().construct == local.part().construct
    assert remote.part().stored_bytes() == local.part().stored_bytes()
    assert remote.part().verify() == remote.part().look() == []
    assert values_of(url) == values_of(path) != {}


def test_a_run_of_ptdbg_in_memory_is_read_too(tmp_path, memory):
    arrays = write_ptdbg(tmp_path / "run" / "step0" / "rank0")

    found = dict(open_run(memory(tmp_path / "run")).part().values())

    assert sorted(tensor.array.tobytes() for tensor in found.values()) == sorted(
        map(np.ndarray.tobytes, arrays.values())
    )


@pytest.mark.parametrize("tensor_format", ["safetensors", "pt"])
def test_a_file_that_has_changed_is_noticed(tensor_format, tmp_path, memory):
    path = write_linear_run(tmp_path / "run", tensor_format=tensor_format)
    stored = max(path.rglob(f"*.{tensor_format}"), key=lambda file: file.stat().st_size)
    whole = stored.read_bytes()
    part = open_run(path).part()
    changed = part.tensor(part.records[RECORD].output[0]).array.tobytes()
    for file in path.rglob(f"*.{tensor_format}"):
        file.write_bytes(file.read_bytes().replace(changed, bytes(len(changed))))
    assert stored.stat().st_size == len(whole)

    (problem,) = open_run(memory(path)).part().verify()

    assert "have changed since they were written" in problem


@pytest.mark.parametrize("tensor_format", ["safetensors", "pt"])
def test_a_file_that_is_cut_off_or_gone_is_a_sentence(tensor_format, tmp_path, memory):
    path = write_linear_run(tmp_path / "run", tensor_format=tensor_format)
    for number, file in enumerate(sorted(path.rglob(f"*.{tensor_format}"))):
        if number % 2:
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:60])

    part = open_run(memory(path)).part()

    assert part.verify()
    for leaf in part.records[RECORD].tensors():
        with pytest.raises((DamagedFileError, RunNotFoundError)):
            part.tensor(leaf)


def test_a_pickle_on_a_store_is_refused_not_run(tmp_path, memory):
    folder = tmp_path / "run" / "step0" / "rank0"
    folder.mkdir(parents=True)
    (folder / "dump.pkl").write_bytes(pickle.dumps(os.getcwd))

    with pytest.raises(UnsafeFileError, match="it is a pickle"):
        _ = open_run(memory(tmp_path / "run")).part().records


def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path, memory):
    path = write_linear_run(tmp_path / "run", tensor_format="pt")
    dump = next(path.rglob("dump.json"))
    dump.write_text(dump.read_text().replace(f"{RECORD}.output.0.pt", "../dump.json"))

    (problem,) = open_run(memory(path)).part().verify()

    assert "is not a plain name inside this folder" in problem


@pytest.mark.parametrize(
    ("url", "error", "sentence"),
    [
        ("memory://nothing/here", RunNotFoundError, "memory://nothing/here does not exist."),
        ("wind://run", ConfigError, "wind://run cannot be read: Protocol not known: wind."),
        ("zip://run::memory://a.zip", ConfigError, "is a chain of URLs"),
        ("http://127.0.0.1:1/run", ParityError, "http://127.0.0.1:1/run"),
    ],
)
def test_a_url_without_a_run_is_one_sentence(url, error, sentence):
    with pytest.raises(error) as raised:
        open_run(url)

    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_path_stays_a_path_and_loads_no_fsspec(tmp_path):
    write_linear_run(tmp_path / "run")
    code = "import sys, torchparity\ntorchparity.compare(sys.argv[1], sys.argv[1])\nprint('fsspec' in sys.modules)"

    done = run_python(code, tmp_path / "run")

    assert done.stdout == "False\n", done.stderr
    assert type(run_path("a/b")) is type(run_path(Path("a/b"))) is type(Path("a/b"))
    assert run_path(f"file://{tmp_path}") == tmp_path


def test_a_url_takes_names_as_a_path_does():
    url = run_path("s3://bucket/run/step0")

    assert str(url / "rank0" / "dump.pkl") == "s3://bucket/run/step0/rank0/dump.pkl"
    assert (str(url.parent), url.name) == ("s3://bucket/run", "step0")
    assert str((url / "dump.pkl").with_suffix("")) == "s3://bucket/run/step0/dump"
    assert pickle.loads(pickle.dumps(url)) == url
    assert sorted([url / "rank1", url / "rank0"]) == [url / "rank0", url / "rank1"]


@pytest.mark.parametrize("tensor_format", ["safetensors", "pt"])
def test_a_run_on_s3_is_compared_with_one_on_disk(tensor_format, tmp_path, s3: Store):
    path = write_linear_run(tmp_path / "run", tensor_format=tensor_format)
    url = s3.put(path, f"runs-{tensor_format}")
    command = [sys.executable, "-m", "torchparity"]

    compared = subprocess.run([*command, "compare", url, str(path)], capture_output=True, text=True, env=s3.environment)
    shown = subprocess.run([*command, "show", url, "--verify"], capture_output=True, text=True, env=s3.environment)

    local = torchparity.compare(path, path)
    assert (compared.returncode, shown.returncode) == (0, 0), compared.stderr + shown.stderr
    assert compared.stdout.startswith(local.headline())
    assert "4 rows compared: 3 by values, 1 argument." in compared.stdout
    assert url in shown.stdout


def test_a_bucket_that_is_not_there_is_one_sentence(s3: Store):
    command = [sys.executable, "-m", "torchparity", "show", "s3://no-such-bucket/run"]

    done = subprocess.run(command, capture_output=True, text=True, env=s3.environment)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "torchparity: s3://no-such-bucket/run does not exist.\n"
