"""What users may import by name, and nothing else."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys

import pytest

import torchparity
from tests.support.processes import ROOT
from torchparity.errors import ConfigError

CLIENT = ROOT / "tests" / "client" / "uses_every_public_name.py"

PUBLIC = {
    "Capture",
    "Comparison",
    "HostTensor",
    "LockstepResult",
    "NpuBehaviour",
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
    "check_laws",
    "compare",
    "compare_distributed",
    "describe",
    "from_torch",
    "lockstep",
    "module_dump",
    "module_dump_end",
    "open_run",
    "random_save",
    "seed_all",
    "simulate_npu",
    "to_torch",
}


def test_the_public_names_are_these():
    assert set(torchparity.__all__) == PUBLIC
    assert set(dir(torchparity)) == PUBLIC | {"__version__"}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_loads_and_is_documented(name):
    assert getattr(torchparity, name).__doc__


@pytest.mark.parametrize("name", ["capture", "PrecisionDebugger", "seed_all", "to_torch"])
def test_without_torch_a_name_that_needs_it_says_how_to_install_it(name):
    code = f"import sys; sys.modules['torch'] = None; import torchparity; torchparity.{name}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert "MissingTorchError: " in done.stderr
    assert done.stderr.rstrip().endswith("`pip install torchparity[torch]` adds it.")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'campture'"):
        _ = torchparity.campture


def public_methods():
    for name in sorted(PUBLIC):
        value = getattr(torchparity, name)
        for method, member in vars(value).items() if inspect.isclass(value) else ():
            is_code = isinstance(member, (classmethod, staticmethod, property)) or inspect.isfunction(member)
            if is_code and not method.startswith("_"):
                yield pytest.param(member, id=f"{name}.{method}")


@pytest.mark.parametrize("member", list(public_methods()))
def test_every_public_method_is_documented(member):
    assert member.__doc__


def test_capture_shows_its_parameters_and_what_it_does():
    parameters = inspect.signature(torchparity.capture).parameters

    assert list(parameters)[:2] == ["path", "model"]
    assert "Record what runs inside the block" in inspect.getdoc(torchparity.capture)


def test_a_misspelt_option_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'list'"), torchparity.capture(tmp_path, lisst=["relu"]):
        pass
    with pytest.raises(ConfigError, match="Did you mean 'level'"):
        torchparity.PrecisionDebugger(levle="L1")


def test_the_client_uses_every_public_name_and_works(tmp_path):
    used = {node.attr for node in ast.walk(ast.parse(CLIENT.read_text())) if isinstance(node, ast.Attribute)}

    done = subprocess.run(
        [sys.executable, "-m", "tests.client.uses_every_public_name", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert used >= PUBLIC
    assert done.returncode == 0, done.stderr
    assert "Torch.relu.0.forward" in done.stdout.splitlines()[-1]


def test_type_checkers_know_every_public_name_and_see_every_misspelt_option():
    options = ["--strict", "--disallow-any-expr", "--follow-imports=silent", "--cache-dir=.mypy_cache/client"]
    files = [str(CLIENT), str(CLIENT.with_name("misspells.py"))]

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", *options, *files],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_changelog_knows_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text()

    assert re.search(rf"^## {re.escape(torchparity.__version__)}\b", changelog, re.MULTILINE)
