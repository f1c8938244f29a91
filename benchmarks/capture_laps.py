"""Paired laps of recording against the bare step; what bench_capture_cpu.py and bench_capture_cuda.py have in common.

A lap is a run of some steps from opening to closing, the writing to disk included, beside as many bare steps; the
ratio of the two is what counts. TORCHPARITY_PEER names the Python of an environment with mindstudio-probe; without
it the peer is left out.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import recorders
from torch import nn


def seconds(work: Callable[[], object], wait: Callable[[], object]) -> float:
    wait()
    began = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - began


def bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure(
    name: str,
    mode: str,
    training: tuple[nn.Module, recorders.Step],
    *,
    laps: int,
    steps: int,
    wait: Callable[[], object],
) -> dict[str, object]:
    """Return the ratios of the laps and what one step took and wrote."""
    model, step = training
    folder = Path("bench_data") / name
    ratios, times, bare_times, written = [], [], [], 0
    for lap in range(laps + 1):
        shutil.rmtree(folder, ignore_errors=True)
        bare = seconds(lambda: recorders.bare(model, step, mode, folder, steps), wait)
        recorded = seconds(lambda: recorders.RECORDERS[name](model, step, mode, folder / "run", steps), wait)
        if lap:  # the first is a warm-up
            ratios.append(round(recorded / bare, 3))
            times.append(recorded / steps)
            bare_times.append(bare / steps)
        written = bytes_in(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return {
        "recorder": name,
        "mode": mode,
        "ratio": statistics.median(ratios),
        "ratios": sorted(ratios),
        "ms_a_step": round(1000 * statistics.median(times), 1),
        "bare_ms": round(1000 * statistics.median(bare_times), 1),
        "mb_a_step": round(written / steps / 1e6, 1),
    }


def in_peer_environment(script: str, arguments: Sequence[str]) -> None:
    """Run the same benchmark of msprobe with the Python that has it."""
    peer = os.environ.get("TORCHPARITY_PEER")
    if peer is None:
        print(json.dumps({"recorder": "msprobe", "left_out": "TORCHPARITY_PEER is not set"}))
        return
    done = subprocess.run([peer, script, "--recorder", "msprobe", *arguments], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"bench"')]
    print("\n".join(lines) or done.stderr[-2000:], file=sys.stdout, flush=True)
