"""Device time of recording on a GPU: what torch.profiler says that a step's kernels take, and ours among them.

Kernels of torch that a recorded step launches more often than a bare one, copies above all, count as ours.

    python benchmarks/bench_device_time.py [--size small large] [--modes statistics-L1 md5-L1]

Budgets, fixed beforehand: 12 ms of kernels and copies for a step of the small GPT of gpt.py, 40 ms for the large one.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
from collections import defaultdict
from pathlib import Path

import gpt
import recorders
import torch
from torch.profiler import ProfilerActivity, profile

BUDGET_MS = {"small": 12.0, "large": 40.0}
OURS = ("measure_few", "measure_many", "measure_strided", "join_chunks")
STEPS = 2


def device_times(record: recorders.Record, training: tuple[torch.nn.Module, recorders.Step], mode: str) -> dict:
    """Return for each kernel of a recording its milliseconds and its launches, a step."""
    folder = Path("bench_data") / "device_time"
    shutil.rmtree(folder, ignore_errors=True)
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        record(*training, mode, folder, STEPS)
        torch.cuda.synchronize()
    shutil.rmtree(folder, ignore_errors=True)
    times: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for event in profiled.key_averages():
        if event.self_device_time_total:
            times[event.key][0] += event.self_device_time_total / 1000 / STEPS
            times[event.key][1] += event.count / STEPS
    return dict(times)


def measure(size: str, mode: str, training: tuple[torch.nn.Module, recorders.Step]) -> dict[str, object]:
    recorders.ours(*training, mode, Path("bench_data") / "compiling", 1)  # the first launch of a kernel compiles it
    shutil.rmtree(Path("bench_data") / "compiling", ignore_errors=True)
    bare = device_times(recorders.bare, training, mode)
    recorded = device_times(recorders.ours, training, mode)
    ours = {name: recorded[name] for name in OURS if name in recorded}
    in_bare = {name: bare.get(name, [0.0, 0.0]) for name in recorded}
    copies = {
        name: (time - in_bare[name][0], launches - in_bare[name][1])
        for name, (time, launches) in recorded.items()
        if name not in OURS and launches > in_bare[name][1]
    }
    ours_ms, copies_ms = (sum(time for time, _ in kernels.values()) for kernels in (ours, copies))
    return {
        "size": size,
        "mode": mode,
        "bare_ms": round(sum(time for time, _ in bare.values()), 1),
        "recorded_ms": round(sum(time for time, _ in recorded.values()), 1),
        "ours_ms": round(ours_ms + copies_ms, 1),
        "copies_ms": round(copies_ms, 2),
        "kernels": {
            name: {"ms": round(time, 2), "launches": launches} for name, (time, launches) in (ours | copies).items()
        },
        "budget_ms": BUDGET_MS[size],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=list(gpt.ON_GPU), nargs="+", default=list(gpt.ON_GPU))
    parser.add_argument("--modes", nargs="+", default=["statistics-L1", "md5-L1"])
    options = parser.parse_args()
    logging.disable(logging.INFO)
    if not torch.cuda.is_available():
        print(json.dumps({"bench": "device_time", "left_out": "no CUDA device"}))
        return
    for size in options.size:
        training = gpt.training(gpt.ON_GPU[size], "cuda")
        for _ in range(3):
            training[1]()
        for mode in options.modes:
            print(json.dumps({"bench": "device_time", **measure(size, mode, training)}), flush=True)
        del training
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
