"""The names of earlier tools: nothing that is really installed is shadowed unless the user asks for it."""

from __future__ import annotations

import sys

import pytest

from tests.seeds.samples import run_command
from tests.support.processes import run_python

REAL = '__version__ = "2.1.0"\ndef device_count(): return 8\n'
LOOK = """
from torchparity.compat import install
install({options})
import torch_npu
from torch_npu.hooks import {name}
print(torch_npu.device_count(), {name}.__module__)
"""


@pytest.fixture
def real_torch_npu(tmp_path):
    """A package of the name torch_npu, without hooks."""
    package = tmp_path / "torch_npu"
    package.mkdir()
    (package / "__init__.py").write_text(REAL)
    return package


def look(package, *, options="", name="set_dump_path"):
    code = f"import sys; sys.path.insert(0, {str(package.parent)!r})\n" + LOOK.format(options=options, name=name)
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_of_a_real_torch_npu_only_the_missing_hooks_are_added(real_torch_npu):
    assert look(real_torch_npu) == "8 torchparity.compat.hooks"


def test_hooks_that_are_really_there_stay(real_torch_npu):
    (real_torch_npu / "hooks.py").write_text("def set_dump_path(): pass\n")

    assert look(real_torch_npu) == "8 torch_npu.hooks"


def test_who_insists_gets_ours(real_torch_npu):
    (real_torch_npu / "hooks.py").write_text("def set_dump_path(): pass\n")
    (real_torch_npu / "unrelated.py").write_text("")
    code = (
        f"import sys; sys.path.insert(0, {str(real_torch_npu.parent)!r})\n"
        "from torchparity.compat import install\nimport torch_npu.hooks\ninstall(insist=True)\n"
        "from torch_npu.hooks import set_dump_path\nimport torch_npu\n"
        "print(torch_npu.device_count(), set_dump_path.__module__)"
    )

    done = run_python(code)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "8 torchparity.compat.hooks"


def test_who_insists_before_the_import_keeps_the_real_package_around_ours(real_torch_npu):
    (real_torch_npu / "hooks.py").write_text("def set_dump_path(): pass\n")

    assert look(real_torch_npu, options="insist=True") == "8 torchparity.compat.hooks"


def test_a_program_of_the_names_runs_as_a_module(tmp_path):
    words = ["run", "--seeds", "-m", "api_accuracy_checker.run_ut.run_ut", "-forward", "forward_info_0.json"]

    done = run_command([sys.executable, "-m", "torchparity", *words], tmp_path)

    assert done.returncode == 2
    assert "forward_info_0.json" in done.stderr


def test_without_install_the_names_are_not_there():
    done = run_python("import torchparity.compat\nimport ptdbg_ascend")

    assert done.returncode == 1
    assert "No module named 'ptdbg_ascend'" in done.stderr


def test_importing_the_names_of_the_check_starts_nothing_until_it_is_used():
    done = run_python(
        "from torchparity.compat import install\ninstall()\nimport api_accuracy_checker, sys\n"
        "print('torchparity.check.dump' in sys.modules)"
    )

    assert done.stdout.strip() == "False", done.stderr


def test_everything_that_msprobe_pytorch_exports_is_there():
    done = run_python(
        "from torchparity.compat import install\ninstall()\nfrom msprobe.pytorch import *\n"
        "print([each.__name__ for each in (PrecisionDebugger, compare, compare_distributed, seed_all)])"
    )

    assert done.stdout.strip() == "['PrecisionDebugger', 'compare', 'compare_distributed', 'seed_all']", done.stderr
