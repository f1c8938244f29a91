"""A file in a folder is a plugin: every one keeps its folder's contract."""

from __future__ import annotations

import polars as pl
import pytest

from torchparity import plugins
from torchparity.errors import UnknownPluginError
from torchparity.records import Table


def test_storage_has_three_tensor_formats():
    assert plugins.names("storage.formats") == ["pkl", "pt", "safetensors"]


@pytest.mark.parametrize("name", plugins.names("storage.formats"))
def test_a_tensor_format_keeps_the_contract(name, tmp_path):
    plugin = plugins.load("storage.formats", name)

    assert plugin.suffix.startswith(".")
    assert callable(plugin.source(tmp_path).read)
    assert callable(plugin.source(tmp_path).look)
    assert isinstance(plugin.bare_nan, bool)


def test_report_has_four_table_formats():
    assert plugins.names("report.formats") == ["csv", "json", "parquet", "xlsx"]


@pytest.mark.parametrize("name", plugins.names("report.formats"))
def test_a_table_format_keeps_the_contract(name, tmp_path):
    plugin = plugins.load("report.formats", name)
    path = tmp_path / f"table{plugin.suffix}"

    written = plugin.write(Table(frame=pl.DataFrame({"a": [1]}), title="table"), path)

    assert plugin.suffix == f".{name}"
    assert (written.files, written.notes) == ([path], [])
    assert path.stat().st_size > 0


def test_an_unknown_plugin_is_answered_with_the_nearest():
    with pytest.raises(UnknownPluginError, match="Did you mean 'safetensors'"):
        plugins.load("storage.formats", "safetensor")


def test_a_plugin_name_is_not_a_path():
    with pytest.raises(UnknownPluginError):
        plugins.load("storage.formats", "../errors")
