"""Cost of task free_benchmark beside the bare step: the GPT in gpt.py, in bfloat16, on the CPU or on a GPU.

A lap trains some steps bare and as many perturbed, from start to close; the ratio of the two is what counts.
Budget: all APIs with improve_precision 4x, one selected API 1.1x.

    python benchmarks/bench_perturb.py [--device cuda] [--laps 5] [--steps 2]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gpt
import torch
from torch import nn

from torchparity import PrecisionDebugger

CASES = {
    "all APIs, improve_precision": ({"pert_mode": "improve_precision"}, 4.0),
    "all APIs, bit_noise": ({"pert_mode": "bit_noise"}, None),
    "one API (gelu), improve_precision": ({"pert_mode": "improve_precision", "list": ["gelu"]}, 1.1),
    "one call, improve_precision": ({"pert_mode": "improve_precision", "scope": ["Functional.linear.0.forward"]}, 1.1),
}
FOLDER = Path("bench_data") / "perturb"


def perturbed(model: nn.Module, step: Callable[[], object], steps: int, fields: dict[str, object]) -> None:
    debugger = PrecisionDebugger(task="free_benchmark", dump_path=FOLDER, **fields)
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(steps):
            debugger.start(model)
            step()
            debugger.stop()
            debugger.step()
        debugger.close()


def spent(work: Callable[[], object], wait: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that work takes, and those of the processor: others may use the machine too."""
    wait()
    began = time.perf_counter(), time.process_time()
    work()
    wait()
    return time.perf_counter() - began[0], time.process_time() - began[1]


def measure(name: str, size: gpt.Size, options: argparse.Namespace) -> dict[str, object]:
    """Return the ratios of the laps of one case."""
    fields, budget = CASES[name]
    model, step = gpt.training(size, options.device)
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    ratios, cpu_ratios, bare_times = [], [], []
    for lap in range(options.laps + 1):
        bare = spent(lambda: [step() for _ in range(options.steps)], wait)
        perturbing = spent(lambda: perturbed(model, step, options.steps, fields), wait)
        if lap:  # the first is a warm-up
            ratios.append(round(perturbing[0] / bare[0], 3))
            cpu_ratios.append(round(perturbing[1] / bare[1], 3))
            bare_times.append(bare[0] / options.steps)
    shutil.rmtree(FOLDER, ignore_errors=True)
    return {
        "case": name,
        "ratio": statistics.median(ratios),
        "ratios": sorted(ratios),
        "cpu_ratio": statistics.median(cpu_ratios),
        "cpu_ratios": sorted(cpu_ratios),
        "budget": budget,
        "bare_ms": round(1000 * statistics.median(bare_times), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--case", choices=CASES, action="append", help="only this one; may be repeated")
    options = parser.parse_args()
    size = gpt.GPU if options.device == "cuda" else replace(gpt.CPU, dtype=torch.bfloat16)
    for name in options.case or CASES:
        print(json.dumps(measure(name, size, options)), flush=True)


if __name__ == "__main__":
    main()
