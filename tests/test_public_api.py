"""What users may import by name, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import torchparity
from tests.support.processes import run_python

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


def test_the_public_name_works_again_and_again(tmp_path):
    code = (
        "import sys, torch, torchparity\n"
        "for n in range(3):\n"
        "    with torchparity.capture(sys.argv[1] + str(n)): torch.ones(1) + 1\n"
        "import torchparity.recording\n"
        "with torchparity.capture(sys.argv[1] + '3'): torch.ones(1) + 1\n"
    )
    done = run_python(code, tmp_path / "run")

    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.iterdir())) == 4
