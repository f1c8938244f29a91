"""Calls of small APIs that are checked in a second on one core; the aim is 200, msprobe checks 1.5.

python benchmarks/bench_check.py [--device cpu] [--calls 400]

Records small calls with gradients into a temporary run of each task, then checks it as `torchparity check` does.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch
from torch.nn import functional as F

import torchparity
from torchparity.check.entry import CheckOptions, check_run
from torchparity.check.source import RunSource

CALLS_A_ROUND = 10


def small_calls(rounds: int) -> None:
    """Make ten calls with gradients in each round."""
    weight = torch.randn(16, 16, requires_grad=True)
    kernel = torch.randn(4, 3, 3, 3, requires_grad=True)
    for _ in range(rounds):
        x = torch.randn(8, 16, requires_grad=True)
        y = F.layer_norm(F.gelu(F.linear(x, weight)), (16,))
        y = F.softmax(y, -1) * torch.sigmoid(y)
        images = F.conv2d(torch.randn(2, 3, 8, 8), kernel)
        (y.sum() + images.mean()).backward()


def measure(folder: Path, task: str, rounds: int, device: str) -> dict[str, object]:
    run = folder / task
    with torchparity.capture(str(run), task=task, level="L1") as recording:
        small_calls(rounds)
        recording.step()
    options = CheckOptions(devices=[device], folder=folder)
    check_run(RunSource(path=run), options)  # the first time loads kernels
    began, cpu = time.perf_counter(), time.process_time()
    summary = check_run(RunSource(path=run), options)
    took, worked = time.perf_counter() - began, time.process_time() - cpu
    calls = sum(summary.counts.values())
    return {
        "benchmark": "check",
        "task": task,
        "device": device,
        "torch": torch.__version__,
        "calls": calls,
        "statuses": dict(summary.counts),
        "calls_per_second": round(calls / took),
        "calls_per_cpu_second": round(calls / worked),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--calls", type=int, default=400)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        for task in ("statistics", "tensor"):
            print(json.dumps(measure(Path(folder), task, options.calls // CALLS_A_ROUND, options.device)))


if __name__ == "__main__":
    main()
