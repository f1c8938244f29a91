"""Plugins are found by name."""

from __future__ import annotations

import pytest

from torchparity import plugins
from torchparity.errors import UnknownPluginError


def test_an_unknown_plugin_is_answered_with_the_nearest():
    with pytest.raises(UnknownPluginError, match="Did you mean 'safetensors'"):
        plugins.load("storage.formats", "safetensor")


def test_a_plugin_name_is_not_a_path():
    with pytest.raises(UnknownPluginError):
        plugins.load("storage.formats", "../errors")
