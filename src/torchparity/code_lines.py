"""Lines of code from a call stack: the user's own, and the one inside of a library that made the call.

Frames are told apart by their paths alone, since the run may come from another machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_FRAME = re.compile(r"\s*File (?P<path>[^\n]+), line (?P<line>\d+)\b")
_INSTALLED = re.compile(r"(?:^|/)(?:site|dist)-packages/")
_INSTALLED_TORCH = re.compile(
    r"(?:^|/)(?:site|dist)-packages/(?:torch|torch_npu|functorch|torchparity|msprobe|ptdbg_ascend)/"
)
# torch built in a folder of its own; a user's project may lie in a folder named torch too.
_TORCH_SOURCE = re.compile(
    r"/torch/(?:nn/(?:modules/|parallel/|functional\.py)|_tensor\.py|_ops\.py|_dynamo/|_inductor/|_functorch/"
    r"|autograd/(?:function|graph|__init__)\.py|optim/(?:optimizer|lr_scheduler|adamw?|sgd)\.py"
    r"|utils/(?:_contextlib|checkpoint)\.py)"
)
_GENERATED_BY_TORCH = re.compile(r"<eval_with_key>|/torchinductor_")
_STANDARD_LIBRARY = re.compile(r"<frozen |/lib(?:64)?/python\d[\d.]*/|/[Pp]ython3?\d*/Lib/|/python\d+\.zip/")
_LAUNCHER = re.compile(r"/s?bin/[^/.]+$|/Scripts/[^/]+$")  # torchrun, a console script
_NOTEBOOK = re.compile(r"/ipykernel_\d+/|^<ipython-input-")


class _Line(NamedTuple):
    path: str
    number: str

    def __str__(self) -> str:
        name = "a notebook's cell" if _NOTEBOOK.search(self.path) else self.path.rpartition("/")[2]
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
    found = _FRAME.match(frame)
    return _Line(found["path"].replace("\\", "/"), found["line"]) if found else None


def _is_torch_or_python(path: str) -> bool:
    if _INSTALLED.search(path):
        return _INSTALLED_TORCH.search(path) is not None
    return any(place.search(path) for place in (_STANDARD_LIBRARY, _TORCH_SOURCE, _GENERATED_BY_TORCH))


def _is_users(path: str) -> bool:
    return not _INSTALLED.search(path) and not _LAUNCHER.search(path)
