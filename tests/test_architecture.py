"""Who may import whom: packages, the rooms inside them, and the few places that import torch."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from tools.import_graph import cycles, edges, modules

MODULES = modules()
EDGES = edges(MODULES)
BY_NAME = {module.name: module for module in MODULES}
GROUND = {
    "version",
    "errors",
    "text",
    "naming",
    "overwrites",
    "spellings",
    "records",
    "descriptions",
    "config",
    "plugins",
    "whole_file",
    "lazy",
    "summaries",
    "sketches",
    "code_lines",
}
# A package may import what stands in its row, and of its own rooms what ROOMS says.
ALLOWED = {
    "version": set(),
    "errors": set(),
    "text": set(),
    "spellings": set(),
    "naming": {"errors", "spellings"},
    "overwrites": {"naming"},
    "records": {"naming"},
    "descriptions": {"records"},
    "plugins": {"errors"},
    "whole_file": {"errors"},
    "lazy": set(),
    "summaries": {"records"},
    "sketches": set(),
    "code_lines": set(),
    "config": {"errors", "naming"},
    "tensors": {"errors"},
    "ops": {"errors", "naming", "overwrites"},
    "kernels": {"errors", "records", "summaries", "tensors"},
    "devices": {"kernels", "plugins", "tensors"},
    "storage": {
        *("config", "errors", "lazy", "naming", "plugins", "records", "summaries", "tensors", "text"),
        *("version", "whole_file"),
    },
    "calls": {"descriptions", "devices", "errors", "naming", "ops", "records"},
    "simulation": {"errors"},
    "randomness": {"calls", "devices", "errors", "ops", "whole_file"},
    "perturb": {
        *("calls", "config", "devices", "errors", "kernels", "naming", "ops", "plugins", "tensors", "text"),
        "whole_file",
    },
    "recording": {
        *("calls", "config", "devices", "errors", "kernels", "naming", "ops", "records", "storage", "tensors", "text"),
        *("overwrites", "perturb", "whole_file"),
    },
    "running": {
        *("calls", "config", "errors", "kernels", "perturb", "recording", "storage", "tensors", "text", "whole_file"),
    },
    "integrations": {"calls", "config", "in_lockstep", "recording"},
    "comparing": {
        *("errors", "kernels", "naming", "overwrites", "plugins", "records", "report", "storage", "text", "version"),
        *("code_lines", "communication", "lazy", "sketches", "spellings", "tensors", "whole_file"),
    },
    "communication": {"code_lines", "errors", "naming", "records", "sketches", "storage", "tensors", "text"},
    "check": {
        *("calls", "config", "devices", "errors", "kernels", "naming", "ops", "plugins", "recording", "records"),
        *("report", "spellings", "storage", "tensors", "text", "whole_file"),
    },
    "overflow": {
        *("check", "code_lines", "communication", "errors", "naming", "overwrites", "records", "storage", "tensors"),
        *("text", "whole_file"),
    },
    "in_lockstep": {"calls", "comparing", "devices", "errors", "recording", "storage"},
    "merging": {"errors", "naming", "report", "text", "whole_file"},
    "report": {"errors", "naming", "records", "summaries", "text", "whole_file"},
    "cli": {
        *("comparing", "config", "errors", "kernels", "naming", "plugins", "records", "report", "storage"),
        *("version", "text", "running", "check", "overflow", "merging", "communication", "whole_file"),
    },
    "compat": {
        *("cli", "comparing", "config", "errors", "naming", "randomness", "recording", "report", "running", "storage"),
        "text",
    },
    "__main__": {"cli"},
    "": {
        *(
            "communication",
            "comparing",
            "descriptions",
            "errors",
            "in_lockstep",
            "lazy",
            "randomness",
            "recording",
            "records",
            "simulation",
            "storage",
            "tensors",
        ),
        "version",
    },
}
# Inside a package a room may import what stands in its row; "" is what lies directly in the package.
ROOMS = {
    "calls": {
        "guard": set(),
        "gradients": {"guard"},
        "intercept": {"", "guard"},
        "bypass": {"", "guard"},
        "": {"guard", "gradients", "intercept", "bypass"},
    },
    "recording": {
        "measuring": set(),
        "selection": set(),
        "schedule": set(),
        "step": {"measuring", "selection"},
        "writing": {"selection", "step"},
        "overflow": {"measuring", "selection", "step", "writing"},
        "": {"measuring", "overflow", "selection", "schedule", "step", "writing"},
    },
    "comparing": {
        "pairing": set(),
        "measuring": {"pairing"},
        "engines": {"measuring"},
        "precision": {"measuring", "pairing"},
        "judging.evidence": {"judging", "measuring", "pairing", "precision"},
        "judging.wording": {"judging", "precision"},
        "judging.search": {"judging", "judging.evidence", "measuring", "pairing", "precision"},
        "judging": {"judging.evidence", "judging.search", "judging.wording", "measuring", "pairing", "precision"},
        "msprobe": {"judging", "judging.evidence", "judging.wording", "measuring", "pairing"},
        "": {"engines", "pairing", "measuring", "judging", "judging.evidence", "judging.wording", "msprobe"},
    },
    "check": {
        "judging": set(),
        "emulation": set(),
        "exhaustive": {"emulation", "judging"},
        "two_checks": {"judging"},
        "collection": set(),
        "cases": set(),
        "execution": {"cases", "emulation", "judging"},
        "results": {"judging"},
        "reproduction": {"cases", "execution", "judging", "results"},
        "": {"cases", "collection", "execution", "exhaustive", "judging", "reproduction", "results"},
    },
    "perturb": {
        "triton_launch": set(),
        "apis": {""},
        "perturbations": {"", "apis"},
        "significance": {"", "apis"},
        "": {"apis", "perturbations", "significance", "triton_launch"},
    },
    "kernels": {
        "numba_loops": {""},
        "triton_launch": {""},
        "arenas": {"", "numba_loops", "triton_launch"},
        "": {"numba_loops"},
    },
    "storage": {
        "files": set(),
        "encoding": {"files"},
        "shards": {"files"},
        "pickles": {"files"},
        "formats": {"files", "pickles", "shards"},
        "reading": {"encoding", "files", "formats"},
        "writing": {"encoding", "formats", "reading", "shards"},
        "info_files": {"encoding", "formats", "reading"},
        "": {"encoding", "files", "formats", "info_files", "reading", "writing"},
    },
    "communication": {"laws": {""}, "": {"laws"}},
    "report": {"workbook": {""}, "formats": {"", "workbook"}, "": set()},
    "cli": {"terminal": set(), "": {"terminal"}},
    "simulation": {"faults": {""}, "precision": {""}, "": {"faults", "precision"}},
}
MOST_FILES = 20  # in one folder
TORCH_PACKAGES = {
    *("calls", "devices", "in_lockstep", "integrations", "ops", "randomness", "recording", "running", "simulation"),
    *("check", "compat", "overflow", "perturb"),
}
TORCH_FILES = {
    "integrations.pytest",  # for typing alone
    "tensors.torch_tensors",
    "kernels.compiled_kernel",
    "kernels.cuda_waiting",
    "kernels.arenas",  # for typing alone
    "kernels.arenas.contract",  # for typing alone
    "kernels.arenas.host",  # for typing alone
    "kernels.arenas.cuda",
    "kernels.arenas.cuda_buffers",
    "kernels.arenas.cuda_joiner",
    "kernels.arenas.device_signs",
    "kernels.arenas.portable",
}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name or "__init__")
def test_a_file_imports_only_what_its_package_may(module):
    reached = {BY_NAME[target].package for target in EDGES[module.name]}

    assert reached - {module.package} <= ALLOWED[module.package]


def room_in(module):
    """Return the room of a module inside its package, "" for what lies directly in it."""
    return module.room.removeprefix(module.package).lstrip(".")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name or "__init__")
def test_a_file_imports_only_what_its_room_may(module):
    reached = {room_in(BY_NAME[to]) for to in EDGES[module.name] if BY_NAME[to].package == module.package}
    room = room_in(module)

    assert reached - {room} <= ROOMS.get(module.package, {"": set()})[room]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name or "__init__")
def test_nobody_reaches_into_another_package_s_rooms(module):
    others = {target for target in EDGES[module.name] if BY_NAME[target].package != module.package}

    assert [target for target in others if target.count(".") > 1] == []


def test_no_folder_is_crowded():
    files = Counter(module.file.parent for module in MODULES)

    assert {str(folder): count for folder, count in files.items() if count > MOST_FILES} == {}


def test_no_import_goes_in_a_circle():
    assert cycles(EDGES) == []


def test_no_file_is_marked_as_private_by_an_underscore():
    names = {module.file.name for module in MODULES}

    assert {name for name in names if name.startswith("_")} == {"__init__.py", "__main__.py"}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name or "__init__")
def test_torch_is_imported_in_few_places(module):
    uses_torch = any(name.split(".")[0] in ("torch", "torch_npu") for name in module.imports)

    assert not uses_torch or module.package in TORCH_PACKAGES or module.name in TORCH_FILES


def test_nothing_unpickles():
    for module in MODULES:
        assert not {name for name in module.imports if name.split(".")[0] in ("pickle", "dill", "shelve", "marshal")}


def test_looking_at_runs_imports_no_torch():
    packages = {*GROUND, "storage", "comparing", "communication", "merging", "report"}
    names = [module.name for module in MODULES if module.package in packages]
    names += ["tensors", "kernels.cpu", "kernels.reference", "kernels.pairs", "cli.show", "cli.convert", "cli.compare"]
    names += ["cli.laws", "cli.merge", "cli.overflow", "overflow.origin"]
    names += ["cli.run", "running"]  # which load torch when the script does
    code = "import sys\n" + "".join(f"import torchparity.{name}\n" for name in names) + "print('torch' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_importing_the_package_imports_neither_torch_nor_numpy():
    code = "import sys, torchparity; print([name for name in ('torch', 'numpy', 'rich') if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
