"""Lines of code from a call stack: the user's own, and the one inside of a library that made the call.

Frames are told apart by their paths alone, since the run may come from another machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_FRAME = r"\s*File (?P<path>[^\n]+), line (?P<line>\d+)\b"
_INSTALLED = ("/site-packages/", "/dist-packages/")
_PACKAGES_OF_TORCH = ("torch", "torch_npu", "functorch", "torchparity", "msprobe", "ptdbg_ascend")
_INSTALLED_TORCH = tuple(f"{place}{package}/" for place in _INSTALLED for package in _PACKAGES_OF_TORCH)
# torch built in a folder of its own; a user's project may lie in a folder named torch too.
_TORCH_SOURCE = (
    *("/torch/nn/modules/", "/torch/nn/parallel/", "/torch/nn/functional.py", "/torch/_tensor.py", "/torch/_ops.py"),
    *("/torch/_dynamo/", "/torch/_inductor/", "/torch/_functorch/", "/torch/autograd/function.py"),
    *("/torch/autograd/graph.py", "/torch/autograd/__init__.py", "/torch/optim/optimizer.py", "/torch/optim/adam.py"),
    *("/torch/optim/lr_scheduler.py", "/torch/optim/adamw.py", "/torch/optim/sgd.py", "/torch/utils/_contextlib.py"),
    *("/torch/utils/checkpoint.py", "<eval_with_key>", "/torchinductor_"),
)
_STANDARD_LIBRARY = r"<frozen |/lib(?:64)?/python\d[\d.]*/|/[Pp]ython3?\d*/Lib/|/python\d+\.zip/"
_LAUNCHER = r"/s?bin/[^/.]+$|/Scripts/[^/]+$"  # torchrun, a console script
_NOTEBOOK = r"/ipykernel_\d+/|^<ipython-input-"


class _Line(NamedTuple):
    path: str
    number: str

    def __str__(self) -> str:
        name = "a notebook's cell" if re.search(_NOTEBOOK, self.path) else self.path.rpartition("/")[2]
        return f"{name}, line {self.number}"


def code_lines(frames: Sequence[str]) -> tuple[str, ...]:
    """Return the innermost line of the user's and, where it is another, the innermost line outside of torch.

    `frames` are innermost first, as stack.json has them. A line reads "train.py, line 77". Of a stack without a line
    of the user's the other stands alone; one that is torch's and Python's alone has none.
    """
    outside = [line for line in map(_line, frames) if line is not None and not _is_torch_or_python(line.path)]
    own = next((line for line in outside if _is_users(line.path)), None)
    wanted = [line for line in (own, outside[0] if outside else None) if line is not None]
    return tuple(map(str, dict.fromkeys(wanted)))


def _line(frame: str) -> _Line | None:
    found = re.match(_FRAME, frame)
    return _Line(found["path"].replace("\\", "/"), found["line"]) if found else None


def _is_torch_or_python(path: str) -> bool:
    if _is_installed(path):
        return _has_any(_INSTALLED_TORCH, f"/{path}")
    return _has_any(_TORCH_SOURCE, path) or re.search(_STANDARD_LIBRARY, path) is not None


def _is_users(path: str) -> bool:
    return not _is_installed(path) and not re.search(_LAUNCHER, path)


def _is_installed(path: str) -> bool:
    return _has_any(_INSTALLED, f"/{path}")


def _has_any(places: Sequence[str], path: str) -> bool:
    return any(place in path for place in places)
