"""Public names of a package load when they are first used."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import torchparity.comparing
import torchparity.storage
from torchparity.lazy import lazy_names


@pytest.mark.parametrize(
    ("package", "name"),
    [(package, name) for package in (torchparity.storage, torchparity.comparing) for name in package.__all__],
)
def test_every_name_loads_and_is_no_module(package, name):
    found = [getattr(package, name) for _ in range(2)]  # a module of that name would stand there the second time

    assert found[0] is found[1] and not isinstance(found[0], ModuleType)


def test_a_name_is_taken_from_its_module():
    load = lazy_names("torchparity", {"counted": "text"})

    assert load("counted")(3, "record") == "3 records"
    with pytest.raises(AttributeError, match="module 'torchparity' has no attribute 'conted'"):
        load("conted")


def test_opening_a_run_imports_no_numpy():
    code = "import sys; from torchparity.storage import open_run; print('numpy' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
