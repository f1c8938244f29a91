"""The cost of recording for a training step of the bf16 GPTs in gpt.py on a GPU: ours, DebugMode and msprobe.

Budgets, fixed beforehand: op statistics 1.3x the bare step of the small one, modules 1.1x, both 1.5x, checksums 2x;
of the large one 1.05x and 1.02x; tensors at least 5x faster than msprobe; not recording 1.01x; no wait for the device
within a step.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import warnings
from pathlib import Path

import gpt
import recorders
import torch
from capture_laps import in_peer_environment, measure

BUDGETS = {
    "small": {"statistics-L1": 1.3, "statistics-L0": 1.1, "statistics-mix": 1.5, "md5-L1": 2.0},
    "large": {"statistics-L1": 1.05, "statistics-L0": 1.02},
}
MODES = [*BUDGETS["small"], "tensor-L1"]
STEPS = {"tensor-L1": 1}


def synchronisations(training: tuple[torch.nn.Module, recorders.Step], mode: str) -> int:
    """Return how often a recorded step waits for the device, as torch counts it, beyond a bare step."""
    from torchparity import capture

    def count() -> int:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            training[1]()
            torch.cuda.set_sync_debug_mode("default")
        return sum("called a synchronizing" in str(warning.message) for warning in caught)

    before = count()
    folder = Path("bench_data") / "sync"
    shutil.rmtree(folder, ignore_errors=True)
    task, level = mode.split("-")
    settings = {"statistics": {"summary_mode": "md5"}} if task == "md5" else {}
    with capture(folder, model=training[0], level=level, task="statistics", settings=settings):
        training[1]()  # compiles
    shutil.rmtree(folder)
    with capture(folder, model=training[0], level=level, task="statistics", settings=settings):
        return count() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--modes", nargs="+", default=MODES)
    parser.add_argument("--size", choices=list(gpt.ON_GPU), default="small", help="of the GPT in gpt.py")
    parser.add_argument("--recorder", choices=list(recorders.RECORDERS), nargs="+")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    training = gpt.training(gpt.ON_GPU[options.size], "cuda")
    for _ in range(5):
        training[1]()
    for name in options.recorder or ["ours", "ours_idle", "debug_mode"]:
        modes = {"ours_idle": ["statistics-mix"], "debug_mode": ["statistics-L1", "md5-L1"]}.get(name, options.modes)
        for mode in modes:
            torch.cuda.reset_peak_memory_stats()
            steps = STEPS.get(mode, options.steps)
            laps = min(options.laps, 3) if mode == "tensor-L1" else options.laps
            result = measure(name, mode, training, laps=laps, steps=steps, wait=torch.cuda.synchronize)
            extra = {"gpu_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)}
            if name == "ours" and mode != "tensor-L1":
                extra["synchronisations"] = synchronisations(training, mode)
            budget = BUDGETS[options.size].get(mode) if name == "ours" else None
            print(
                json.dumps({"bench": "capture_cuda", "size": options.size, **result, **extra, "budget": budget}),
                flush=True,
            )
    if options.recorder is None:
        in_peer_environment(
            __file__, ["--laps", str(options.laps), "--steps", str(options.steps), "--modes", *options.modes]
        )


if __name__ == "__main__":
    main()
