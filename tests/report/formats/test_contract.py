"""Every table format keeps the contract of report/formats."""

from __future__ import annotations

import polars as pl
import pytest

from torchparity import plugins
from torchparity.records import Table


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
