"""Every tensor format keeps the whole contract of storage/formats."""

from __future__ import annotations

import pytest

from torchparity import plugins


def test_storage_has_three_tensor_formats():
    assert plugins.names("storage.formats") == ["pkl", "pt", "safetensors"]


@pytest.mark.parametrize("name", plugins.names("storage.formats"))
def test_a_tensor_format_keeps_the_contract(name, tmp_path):
    plugin = plugins.load("storage.formats", name)

    assert plugin.suffix.startswith(".")
    assert callable(plugin.source(tmp_path).read)
    assert callable(plugin.source(tmp_path).look)
    assert isinstance(plugin.bare_nan, bool)
