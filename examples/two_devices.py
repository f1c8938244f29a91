"""Run one training step on two devices from the same weights and data, and compare.

The second device is CUDA, NPU or MPS, whichever there is. Without one the CPU runs twice, the second
time in bfloat16. Every number then differs, by what rounding to bfloat16 explains and no more: the verdict
names the two dtypes and says so, and the table shows how far apart the runs are.
"""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional

import torchparity

RUNS = "example_runs/two_devices"


def accelerator() -> torch.device | None:
    """Return the first device that is not the CPU."""
    for kind in ("cuda", "npu", "mps"):
        backend = getattr(torch, kind, None)
        if backend is not None and backend.is_available():
            return torch.device(kind)
    return None


def record(name: str, model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> str:
    path = f"{RUNS}/{name}"
    with torchparity.capture(path, model=model, task="tensor", overwrite=True):
        functional.cross_entropy(model(inputs), labels).backward()
    return path


def main() -> None:
    torchparity.seed_all(1234)
    model = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 10))
    inputs, labels = torch.randn(32, 64), torch.randint(10, (32,))
    baseline = record("cpu", copy.deepcopy(model), inputs, labels)
    device = accelerator()
    if device is None:
        print("There is no accelerator here: the CPU in bfloat16 stands in for one. Rounding should explain all.")
        candidate = record("bfloat16", model.bfloat16(), inputs.bfloat16(), labels)
    else:
        print(f"The CPU is compared with {device}.")
        candidate = record(device.type, model.to(device), inputs.to(device), labels.to(device))
    comparison = torchparity.compare(candidate, baseline)
    print(comparison.headline())
    for path in comparison.to_csv(f"{RUNS}/tables"):
        print(f"  {path}")


if __name__ == "__main__":
    main()
