"""Public names of a package load when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import torchparity.storage
from torchparity.lazy import lazy_names


@pytest.mark.parametrize("name", torchparity.storage.__all__)
def test_every_name_of_storage_loads(name):
    assert getattr(torchparity.storage, name) is not None


def test_a_name_is_taken_from_its_module():
    load = lazy_names("torchparity", {"counted": "text"})

    assert load("counted")(3, "record") == "3 records"
    with pytest.raises(AttributeError, match="module 'torchparity' has no attribute 'conted'"):
        load("conted")


def test_opening_a_run_imports_no_numpy():
    code = "import sys; from torchparity.storage import open_run; print('numpy' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
