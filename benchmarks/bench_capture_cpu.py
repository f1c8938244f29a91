"""The cost of recording for a CPU training step: ours, torch's DebugMode and msprobe.

The model is the 8-layer GPT in gpt.py, or with `--model llama` a small one of transformers. Budgets, fixed beforehand:
op statistics 1.25x the bare step, modules 1.1x, both 1.35x, checksums 1.35x; tensors at least 6x faster than msprobe
and at most 0.55x its bytes; not recording 1.01x; extra peak memory at most 10 %. The Llama: op statistics 4x.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import gpt
import llama
import recorders
from capture_laps import in_peer_environment, measure

BUDGETS = {
    "gpt": {"statistics-L1": 1.25, "statistics-L0": 1.1, "statistics-mix": 1.35, "md5-L1": 1.35},
    "llama": {"statistics-L1": 4.0},
}
MODES = [*BUDGETS["gpt"], "tensor-L1"]
STEPS = {"tensor-L1": 1}


def nothing() -> None:
    pass


def peak_memory(recorder: str) -> int:
    """Return the peak resident KiB of a process that trains three steps."""
    done = subprocess.run(
        [sys.executable, __file__, "--recorder", recorder, "--memory"], capture_output=True, text=True, check=True
    )
    return int(done.stdout.splitlines()[-1])


def print_own_peak(recorder: str) -> None:
    training = gpt.training(gpt.CPU, "cpu")
    record = recorders.bare if recorder == "bare" else recorders.RECORDERS[recorder]
    training[1]()
    folder = Path("bench_data") / "memory"
    shutil.rmtree(folder, ignore_errors=True)
    record(*training, "statistics-L1", folder, 3)
    # Not getrusage: a process inherits the peak of the one that started it.
    print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--modes", nargs="+", default=MODES)
    parser.add_argument("--model", choices=list(BUDGETS), default="gpt", help="llama: a small one of transformers")
    parser.add_argument("--recorder", choices=["bare", *recorders.RECORDERS], nargs="+")
    parser.add_argument("--memory", action="store_true", help="print the peak memory of this process after three steps")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    if options.memory:
        print_own_peak(options.recorder[0])
        return
    training = llama.training() if options.model == "llama" else gpt.training(gpt.CPU, "cpu")
    for _ in range(3):
        training[1]()
    for name in options.recorder or ["ours", "ours_idle", "debug_mode"]:
        modes = {"ours_idle": ["statistics-mix"], "debug_mode": ["statistics-L1", "md5-L1"]}.get(name, options.modes)
        for mode in modes:
            steps = STEPS.get(mode, options.steps)
            result = measure(name, mode, training, laps=options.laps, steps=steps, wait=nothing)
            budget = BUDGETS[options.model].get(mode) if name == "ours" else None
            print(json.dumps({"bench": "capture_cpu", "model": options.model, **result, "budget": budget}), flush=True)
    if options.recorder is None:
        bare, recorded = peak_memory("bare"), peak_memory("ours")
        print(json.dumps({"bench": "capture_cpu", "peak_memory_ratio": round(recorded / bare, 3), "budget": 1.1}))
        in_peer_environment(
            __file__, ["--laps", str(options.laps), "--steps", str(options.steps), "--modes", *options.modes]
        )


if __name__ == "__main__":
    main()
