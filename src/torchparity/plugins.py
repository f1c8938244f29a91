"""A file in a folder is a plugin: the directory listing is the registry.

Nothing is registered and nothing loads before it is asked for. A plugin folder's
`__init__.py` states the contract, and each `x.py` in it is the plugin `x` and holds `PLUGIN`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from torchparity.errors import UnknownPluginError

_KIND = {
    "storage.formats": "tensor format",
    "devices": "device",
    "report.formats": "report format",
    "perturb.perturbations": "perturbation",
    "comparing.engines": "engine",
}


def names(folder: str) -> list[str]:
    """Return the plugin names in `folder`, without importing them."""
    return sorted(file.stem for file in _folder(folder).glob("[!_]*.py"))


@cache
def load(folder: str, name: str) -> Any:
    """Import one plugin; raise `UnknownPluginError` for a name with no file."""
    file = _folder(folder) / f"{name}.py"
    if not name.isidentifier() or name.startswith("_") or not file.is_file():
        raise UnknownPluginError(_KIND.get(folder, folder), name, names(folder))
    return import_module(f"torchparity.{folder}.{name}").PLUGIN


def _folder(dotted: str) -> Path:
    return Path(__file__).parent.joinpath(*dotted.split("."))
