"""What recording costs a CPU training step of the 8-layer GPT in gpt.py: ours, and msprobe's where it is installed.

Budgets, fixed beforehand: op statistics 1.25x the bare step, modules 1.1x, both 1.35x, checksums 1.35x. A bare lap
stands beside every recorded one, and the ratio of the two is what counts. A recorded lap includes writing the run.
TORCHPARITY_PEER names the Python of an environment with mindstudio-probe; without it the peer is left out.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import gpt
from torch import nn

BUDGET = {"statistics-L1": 1.25, "statistics-L0": 1.1, "statistics-mix": 1.35, "md5-L1": 1.35}
MODES = [*BUDGET, "tensor-L1"]


def ours(model: nn.Module, step: Callable[[], object], mode: str, folder: Path) -> None:
    from torchparity import capture

    task, level = mode.split("-")
    summary = {"summary_mode": "md5"} if task == "md5" else {}
    settings = {"statistics": summary}
    with capture(
        folder, model=model, level=level, task="tensor" if task == "tensor" else "statistics", settings=settings
    ):
        step()


def msprobe(model: nn.Module, step: Callable[[], object], mode: str, folder: Path) -> None:
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
    debugger.start(model)
    step()
    debugger.stop()
    debugger.step()


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(recorder: Callable[..., None], modes: list[str], laps: int, folder: Path) -> dict[str, list[float]]:
    model, step = gpt.training(gpt.CPU, "cpu")
    for _ in range(3):
        step()
    ratios: dict[str, list[float]] = {}
    for mode in modes:
        pairs = []
        for lap in range(laps + 1):
            shutil.rmtree(folder, ignore_errors=True)
            bare = seconds(step)
            recorded = seconds(lambda mode=mode: recorder(model, step, mode, folder / "run"))
            if lap:  # the first is a warm-up
                pairs.append(recorded / bare)
        ratios[mode] = sorted(round(pair, 2) for pair in pairs)
    shutil.rmtree(folder, ignore_errors=True)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--laps", type=int, default=7)
    parser.add_argument("--modes", nargs="+", default=MODES)
    parser.add_argument("--recorder", choices=["ours", "msprobe"], default="ours")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    recorder = ours if options.recorder == "ours" else msprobe
    modes = options.modes
    ratios = measure(recorder, modes, options.laps, Path("bench_data") / options.recorder)
    median = {mode: statistics.median(values) for mode, values in ratios.items()}
    print(
        json.dumps(
            {"bench": "capture_cpu", "recorder": options.recorder, "ratio": median, "ratios": ratios, "budget": BUDGET}
        )
    )
    peer = os.environ.get("TORCHPARITY_PEER")
    if peer and options.recorder == "ours":
        arguments = [peer, __file__, "--recorder", "msprobe", "--laps", str(options.laps), "--modes", *options.modes]
        done = subprocess.run(arguments, capture_output=True, text=True)
        print(next((line for line in done.stdout.splitlines() if line.startswith('{"bench"')), done.stderr[-500:]))


if __name__ == "__main__":
    sys.exit(main())
