"""A file in a folder is a plugin: every one keeps its folder's contract, whole."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import get_args, get_type_hints

import numpy as np
import polars as pl
import pytest

from torchparity import HostTensor, TensorLeaf, plugins
from torchparity.cli import main
from torchparity.config import TensorTask
from torchparity.errors import ConfigError, ParityError, UnknownPluginError
from torchparity.records import Table
from torchparity.report.formats import TableFormat
from torchparity.storage.formats import TensorFormat, TensorSink, TensorSource, writable_formats

TENSOR = HostTensor("torch.float32", np.arange(6, dtype=np.float32).reshape(2, 3))


def methods(contract):
    """Return the parameters of each method that a contract asks for."""
    functions = {name: value for name, value in vars(contract).items() if inspect.isfunction(value)}
    return {name: parameters(function) for name, function in functions.items() if not name.startswith("_")}


def parameters(function):
    return [
        (parameter.name, parameter.kind)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is inspect.Parameter.empty and parameter.name != "self"
    ]


def assert_keeps(contract, thing):
    for name in get_type_hints(contract):
        assert hasattr(thing, name), name
    for name, wanted in methods(contract).items():
        assert parameters(getattr(thing, name)) == wanted, name
    for name in (name for name, value in vars(contract).items() if isinstance(value, property)):
        assert hasattr(thing, name), name


def test_storage_has_three_tensor_formats():
    assert plugins.names("storage.formats") == ["pkl", "pt", "safetensors"]


@pytest.mark.parametrize("name", plugins.names("storage.formats"))
def test_a_tensor_format_keeps_the_contract(name, tmp_path):
    plugin = plugins.load("storage.formats", name)

    assert_keeps(TensorFormat, plugin)
    assert plugin.suffix.startswith(".")
    assert isinstance(plugin.bare_nan, bool) and isinstance(plugin.is_writable, bool)
    source = plugin.source(tmp_path)
    assert_keeps(TensorSource, source)
    missing = TensorLeaf(dtype="torch.float32", shape=(2, 3), data_name=f"missing{plugin.suffix}")
    for ask in (source.look, source.stored, lambda leaf: source.read(leaf, verify=True)):
        with pytest.raises(ParityError):
            ask(missing)


def test_suffixes_tell_formats_apart():
    suffixes = [plugins.load("storage.formats", name).suffix for name in plugins.names("storage.formats")]

    assert len(set(suffixes)) == len(suffixes)


@pytest.mark.parametrize("name", writable_formats())
def test_a_format_reads_what_it_writes(name, tmp_path):
    plugin = plugins.load("storage.formats", name)
    plugin.prepare_to_write()
    sink = plugin.sink(tmp_path)
    assert_keeps(TensorSink, sink)
    data_name, place = sink.put("Torch.exp.0.forward.input.0", TENSOR, crc32=None)
    assert sink.stored_bytes >= TENSOR.nbytes >= sink.waiting_bytes
    sink.close()
    leaf = TensorLeaf(dtype=TENSOR.dtype, shape=TENSOR.shape, data_name=data_name, stored_in=place)
    source = plugin.source(tmp_path)

    source.look(leaf)

    assert data_name.endswith(plugin.suffix)
    assert sink.stored_bytes == sum(file.stat().st_size for file in tmp_path.iterdir()) and sink.waiting_bytes == 0
    for verify in (True, False):
        assert np.array_equal(source.read(leaf, verify=verify).array, TENSOR.array)
    stored = source.stored(leaf)
    assert np.array_equal(stored.verified().array, TENSOR.array)
    assert np.array_equal(stored.map().tensor.array, TENSOR.array)


@pytest.mark.parametrize("name", writable_formats())
def test_a_sink_that_is_abandoned_leaves_nothing_half_written(name, tmp_path):
    sink = plugins.load("storage.formats", name).sink(tmp_path)
    sink.put("Torch.exp.0.forward.input.0", TENSOR)

    sink.abandon()

    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_a_format_that_can_only_be_read_says_so():
    readable_only = [name for name in plugins.names("storage.formats") if name not in writable_formats()]

    assert readable_only == ["pkl"]
    for name in readable_only:
        with pytest.raises(ConfigError, match="can only be read"):
            plugins.load("storage.formats", name).prepare_to_write()


def test_the_settings_and_the_command_line_offer_every_writable_format(capsys):
    assert sorted(get_args(get_type_hints(TensorTask)["tensor_format"])) == sorted(writable_formats())

    assert main(["convert", "--help"]) == 0

    assert f"{{{','.join(writable_formats())}}}" in capsys.readouterr().out


def test_listing_the_formats_imports_nothing_heavy():
    code = (
        "import sys; from torchparity.storage.formats import writable_formats; writable_formats(); "
        "print([name for name in ('numpy', 'torch', 'msgspec', 'safetensors', 'isal') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_report_has_four_table_formats():
    assert plugins.names("report.formats") == ["csv", "json", "parquet", "xlsx"]


@pytest.mark.parametrize("name", plugins.names("report.formats"))
def test_a_table_format_keeps_the_contract(name, tmp_path):
    plugin = plugins.load("report.formats", name)
    path = tmp_path / f"table{plugin.suffix}"

    written = plugin.write(Table(frame=pl.DataFrame({"a": [1]}), title="table"), path)

    assert_keeps(TableFormat, plugin)
    assert plugin.suffix == f".{name}"
    assert (written.files, written.notes) == ([path], [])
    assert path.stat().st_size > 0


def test_an_unknown_plugin_is_answered_with_the_nearest():
    with pytest.raises(UnknownPluginError, match="Did you mean 'safetensors'"):
        plugins.load("storage.formats", "safetensor")


def test_a_plugin_name_is_not_a_path():
    with pytest.raises(UnknownPluginError):
        plugins.load("storage.formats", "../errors")
