"""Who may import whom, read off every file's syntax tree, so that imports inside functions count."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "torchparity"
# A file may import what stands in its row, and of its own folder whatever it likes.
ALLOWED = {
    "errors": set(),
    "naming": {"errors"},
    "records": {"naming"},
    "tensors": {"errors"},
    "plugins": {"errors"},
    "config": {"errors"},
    "kernels": {"errors", "records", "tensors"},
    "storage": {"", "config", "errors", "naming", "plugins", "records", "tensors"},
    "capture": {"config", "errors", "kernels", "naming", "records", "storage", "tensors"},
    "compare": {"", "errors", "kernels", "naming", "plugins", "records", "storage"},
    "report": {"errors", "naming", "records"},
    "cli": {"", "compare", "config", "errors", "kernels", "naming", "records", "report", "storage"},
    "__main__": {"cli"},
    "__init__": {"capture", "compare", "errors", "records", "storage", "tensors"},
}
WITHOUT_TORCH = (
    "_closing",
    "_covered",
    "_debugger",
    "_differing",
    "_finished",
    "_frames",
    "_output",
    "_patches",
    "_selection",
    "_switch",
    "_xor",
)
TORCH_USERS = {"storage/_torch.py", "kernels/_cuda.py", "kernels/_portable.py", "kernels/_waiting.py"} | {
    f"capture/{file.name}" for file in (SOURCE / "capture").glob("_[a-z]*.py") if file.stem not in WITHOUT_TORCH
}
FILES = sorted(SOURCE.rglob("*.py"))


def imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def room_of(module: str) -> str:
    """Return the layer of a dotted name below torchparity; "" for the package itself."""
    first = module.removeprefix("torchparity").lstrip(".").split(".")[0]
    return first if (SOURCE / first).is_dir() or (SOURCE / f"{first}.py").is_file() else ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_file_imports_only_what_its_layer_may(file):
    room = file.relative_to(SOURCE).parts[0].removesuffix(".py")

    reached = {room_of(name) for name in imports(file) if name.split(".")[0] == "torchparity"}

    assert reached - {room} <= ALLOWED[room]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_torch_is_imported_in_few_places(file):
    uses_torch = any(name.split(".")[0] in ("torch", "torch_npu") for name in imports(file))

    assert uses_torch == (str(file.relative_to(SOURCE)) in TORCH_USERS)


def test_nothing_unpickles():
    for file in FILES:
        assert not {name for name in imports(file) if name.split(".")[0] in ("pickle", "dill", "shelve", "marshal")}


def test_looking_at_runs_imports_no_torch():
    names = ["naming", "records", "config", "tensors", "storage", "storage.pt", "storage.pkl", "storage.safetensors"]
    names += ["kernels.reference", "report._show", "report.xlsx", "report.parquet", "cli.show", "cli.convert"]
    code = "import sys\n" + "".join(f"import torchparity.{name}\n" for name in names) + "print('torch' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_importing_the_package_imports_neither_torch_nor_numpy():
    code = "import sys, torchparity; print([name for name in ('torch', 'numpy', 'rich') if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
