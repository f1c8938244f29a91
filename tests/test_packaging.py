"""The wheel that users install: built, put into a clean environment, and used from there."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.processes import ROOT
from tests.support.runs import write_linear_run

pytest.importorskip("hatchling", reason="hatchling builds the wheel; `make setup` installs it")
SOURCE = ROOT / "src" / "torchparity"


def run(*command, **options):
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, env=environment, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    name = run(sys.executable, "-c", build, folder, cwd=ROOT).split()[-1]
    return folder / name


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The folder of commands of an environment that has the wheel, and the dependencies of this one."""
    environment = tmp_path_factory.mktemp("clean")
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    # Behind the wheel, and as a plain folder: a .pth file in it that points to a checkout is not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return environment / "bin"


def test_the_wheel_has_every_file_of_the_source_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}

    wanted = {
        f"torchparity/{file.relative_to(SOURCE).as_posix()}"
        for file in SOURCE.rglob("*")
        if file.suffix in (".py", ".typed")
    }
    assert packed == wanted
    assert "torchparity/py.typed" in packed


def test_every_module_of_the_wheel_is_the_wheels_own(installed, wheel):
    place = run(installed / "python", "-c", "import torchparity; print(torchparity.__file__)")

    assert place.startswith(str(installed.parent))


def test_the_commands_of_the_wheel_work(installed, tmp_path):
    path = write_linear_run(tmp_path / "run")

    assert run(installed / "torchparity", "--version").startswith("torchparity 0.")
    assert "Functional.linear.0.forward" in run(installed / "torchparity", "show", path, "--list")
    assert "The runs are identical" in run(installed / "torchparity", "compare", path, path)


def test_recording_with_the_wheel_works(installed, tmp_path):
    code = "import torch, torchparity\nwith torchparity.capture('run'): torch.ones(3).exp()"

    run(installed / "python", "-c", code, cwd=tmp_path)

    assert "Tensor.exp.0.forward" in run(installed / "torchparity", "show", tmp_path / "run", "--list")
