"""The ways to record a training that the capture benchmarks compare: `record(model, step, mode, folder, steps)`.

A mode is `{task}-{level}`. What a recorder needs before the first step and after the last is part of what it costs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from torch import nn

Step = Callable[[], object]
Record = Callable[[nn.Module, Step, str, Path, int], None]


def bare(model: nn.Module, step: Step, mode: str, folder: Path, steps: int) -> None:
    for _ in range(steps):
        step()


def ours(model: nn.Module, step: Step, mode: str, folder: Path, steps: int) -> None:
    from torchparity import capture

    task, level = mode.split("-")
    settings = {"statistics": {"summary_mode": "md5"}} if task == "md5" else {}
    name = "tensor" if task == "tensor" else "statistics"
    with capture(folder, model=model, level=level, task=name, settings=settings) as recording:
        for number in range(steps):
            if number:
                recording.step()
            step()


def ours_idle(model: nn.Module, step: Step, mode: str, folder: Path, steps: int) -> None:
    """A debugger that is there, is started and stopped, and wants none of these steps."""
    from torchparity import PrecisionDebugger

    debugger = PrecisionDebugger(dump_path=str(folder), task="statistics", level="mix", step=[1_000_000])
    for _ in range(steps):
        debugger.start(model)
        step()
        debugger.stop()
        debugger.step()
    PrecisionDebugger.close()


def msprobe(model: nn.Module, step: Step, mode: str, folder: Path, steps: int) -> None:
    from msprobe.pytorch import PrecisionDebugger

    task, level = mode.split("-")
    name = "tensor" if task == "tensor" else "statistics"
    summary = {"summary_mode": "md5" if task == "md5" else "statistics"}
    config = {"task": name, "dump_path": str(folder), "rank": [], "step": [], "level": level, name: summary}
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = folder.parent / "config.json"
    path.write_text(json.dumps(config))
    PrecisionDebugger._instance = None  # it allows one per process; each lap here is a run of its own
    debugger = PrecisionDebugger(str(path))
    for _ in range(steps):
        debugger.start(model)
        step()
        debugger.stop()
        debugger.step()


def debug_mode(model: nn.Module, step: Step, mode: str, folder: Path, steps: int) -> None:
    """Torch's own: it keeps no values (`statistics`) or hashes of them (`md5`), and writes nothing."""
    from torch.utils._debug_mode import DebugMode

    for _ in range(steps):
        with DebugMode(), DebugMode.log_tensor_hashes() if mode.startswith("md5") else contextlib.nullcontext():
            step()


RECORDERS: dict[str, Record] = {
    "ours": ours,
    "ours_idle": ours_idle,
    "msprobe": msprobe,
    "debug_mode": debug_mode,
}
