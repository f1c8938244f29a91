"""The walk of one `F.linear` through torchparity: Python calls, files and switches between files.

    python tools/walk.py [--task tensor] [--calls] [--source PATH/TO/OTHER/src]

Counts the second `F.linear` of a step, forward, and its part of the backward pass. A
switch is a call whose file, or room, is not that of the call before it. `--source` walks
another checkout, to compare with.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Literal

See = Callable[[Callable[[], Any]], Any]


class Walk:
    """Notes every Python function of torchparity that is called while it is on."""

    def __init__(self, source: Path) -> None:
        self._source = str(source / "torchparity")
        self.steps: list[tuple[str, str]] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self._source):
            file = code.co_filename[len(self._source) + 1 :]
            self.steps.append((file, getattr(code, "co_qualname", code.co_name)))

    def during(self, work: Callable[[], Any]) -> Any:
        sys.setprofile(self)
        try:
            return work()
        finally:
            sys.setprofile(None)

    def counts(self) -> dict[str, int]:
        files = [file for file, _ in self.steps]
        rooms = [file.rpartition("/")[0] for file in files]
        return {
            "calls": len(files),
            "files": len(set(files)),
            "file_switches": _switches(files),
            "rooms": len(set(rooms)),
            "room_switches": _switches(rooms),
        }


def _switches(places: list[str]) -> int:
    return sum(before != after for before, after in itertools.pairwise(places))


def walks(source: Path, task: Literal["statistics", "tensor"]) -> dict[str, Walk]:
    """Record two steps, and walk the second `F.linear` of the second one."""
    import torch
    from torch.nn import functional

    import torchparity

    forward, backward = Walk(source), Walk(source)
    weight, bias = torch.randn(8, 8, requires_grad=True), torch.randn(8, requires_grad=True)

    def step(see_forward: See, see_backward: See) -> None:
        hidden = functional.linear(torch.randn(4, 8, requires_grad=True), weight, bias)
        output = see_forward(lambda: functional.linear(hidden, weight, bias))
        ones = torch.ones_like(output)
        see_backward(lambda: torch.autograd.grad(output, (hidden, weight, bias), ones))

    with tempfile.TemporaryDirectory() as folder, torchparity.capture(Path(folder) / "run", task=task) as recording:
        step(_unseen, _unseen)
        recording.step()
        step(forward.during, backward.during)
    return {"forward": forward, "backward": backward}


def _unseen(work: Callable[[], Any]) -> Any:
    return work()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="statistics", choices=["statistics", "tensor"])
    parser.add_argument("--calls", action="store_true", help="list the calls in their order")
    parser.add_argument("--source", type=Path, default=Path(__file__).resolve().parent.parent / "src")
    options = parser.parse_args()
    source = options.source.resolve()
    sys.path.insert(0, str(source))
    for direction, walk in walks(source, options.task).items():
        print(json.dumps({"walk": direction, "task": options.task, **walk.counts()}))
        if options.calls:
            for file, name in walk.steps:
                print(f"  {file:50} {name}")


if __name__ == "__main__":
    main()
