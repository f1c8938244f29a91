"""What users may import by name, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import torchparity

PUBLIC = {
    "Comparison",
    "HostTensor",
    "ParityError",
    "PrecisionDebugger",
    "Record",
    "RunPart",
    "RunReader",
    "RunWriter",
    "StackGroup",
    "TensorLeaf",
    "ValueLeaf",
    "capture",
    "compare",
    "describe",
    "from_torch",
    "module_dump",
    "module_dump_end",
    "open_run",
    "random_save",
    "seed_all",
    "to_torch",
}


def test_the_public_names_are_these():
    assert set(torchparity.__all__) == PUBLIC
    assert set(dir(torchparity)) == PUBLIC | {"__version__"}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_loads_and_is_documented(name):
    assert getattr(torchparity, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'campture'"):
        _ = torchparity.campture


def test_the_changelog_knows_this_version():
    changelog = (Path(__file__).parent.parent / "CHANGELOG.md").read_text()

    assert re.search(rf"^## {re.escape(torchparity.__version__)}\b", changelog, re.MULTILINE)
