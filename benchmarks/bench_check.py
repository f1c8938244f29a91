"""Calls of small APIs that are checked in a second on one core; the aim is 200.

python benchmarks/bench_check.py [--device cpu] [--calls 400]
python benchmarks/bench_check.py --calls 40 --msprobe venv/bin/python     msprobe beside it, on the same dump

Records small calls with gradients into a temporary run of each task, then checks it as `torchparity check` does.
`--msprobe` names the Python of an environment with mindstudio-probe and torch. Its acc_check is run as it is, which
needs a GPU or an NPU; where it refuses, its message is printed, and it is run once more with a CPU that poses as CUDA.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from torch.nn import functional as F

import torchparity
from torchparity.check.entry import CheckOptions, check_run
from torchparity.check.source import RunSource

CALLS_A_ROUND = 10
# msprobe knows CUDA and NPUs alone; nothing of what it computes or judges is changed.
POSING_AS_CUDA = """
import torch

def here(value):
    return "cpu" if isinstance(value, (str, torch.device)) and str(value).startswith("cuda") else value

def moved(method):
    def move(self, *args, **kwargs):
        return method(self, *map(here, args), **{key: here(value) for key, value in kwargs.items()})
    return move

torch.Tensor.to = moved(torch.Tensor.to)
torch.Tensor.cuda = lambda self, *args, **kwargs: self.clone()
torch.cuda.set_device = lambda device: None
torch.cuda.empty_cache = lambda: None
torch.set_num_threads(1)
from msprobe.msprobe import main
main()
"""
_RAISED = re.compile(r"[\w.]+(Error|Exception)\b")
AS_IT_IS = "from msprobe.msprobe import main; main()"


def small_calls(rounds: int) -> None:
    """Make ten calls with gradients in each round."""
    weight = torch.randn(16, 16).requires_grad_()
    kernel = torch.randn(4, 3, 3, 3).requires_grad_()
    for _ in range(rounds):
        x = torch.randn(8, 16).requires_grad_()
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


def measure_msprobe(python: str, run: Path, way: str, code: str) -> dict[str, object]:
    """Run msprobe's acc_check on the dump of a run; its own start, without a call to check, is not counted."""
    folder = run.parent / "-".join(["msprobe", *way.split()])  # msprobe refuses a path with spaces
    command = [python, "-c", code, "acc_check", "-api_info", str(run / "step0" / "rank0" / "dump.json")]
    before, began = _cpu_seconds(), time.perf_counter()
    subprocess.run([python, "-c", code, "acc_check", "-h"], capture_output=True, check=False)
    to_start, cpu_to_start = time.perf_counter() - began, _cpu_seconds() - before
    before, began = _cpu_seconds(), time.perf_counter()
    ended = subprocess.run([*command, "-o", str(folder)], capture_output=True, text=True, check=False)
    took, worked = time.perf_counter() - began - to_start, _cpu_seconds() - before - cpu_to_start
    said: dict[str, object] = {"benchmark": "check", "tool": "msprobe acc_check", "way": way, "exit": ended.returncode}
    tables = list(folder.glob("accuracy_checking_result_*.csv"))
    if ended.returncode or not tables:
        return said | {"message": [line for line in ended.stderr.splitlines() if _RAISED.match(line)]}
    calls = len(tables[0].read_text(encoding="utf-8-sig").splitlines()) - 1
    return said | {
        "calls": calls,
        "calls_per_second": round(calls / took, 2),
        "calls_per_cpu_second": round(calls / worked, 2),
    }


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--msprobe", metavar="PYTHON", help="Python with mindstudio-probe and torch, to run beside")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        for task in ("statistics", "tensor"):
            print(json.dumps(measure(Path(folder), task, options.calls // CALLS_A_ROUND, options.device)), flush=True)
        if options.msprobe is not None:
            for way, code in (("as it is", AS_IT_IS), ("on a CPU posing as CUDA", POSING_AS_CUDA)):
                print(json.dumps(measure_msprobe(options.msprobe, Path(folder, "statistics"), way, code)), flush=True)


if __name__ == "__main__":
    main()
