"""The speed of statistics of float32 tensors in memory on the CPU, on all cores; torch.sum is the yardstick.

One tensor after the other, as recording does it: those of a lap take more room together than any cache.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import torch

from torchparity.kernels.arenas.host import HostArena

SIZES = [1, 4, 16, 64]  # MB
TOGETHER = 640  # MB
LAPS = 7


def rate(take: Callable[[torch.Tensor], object], tensors: list[torch.Tensor]) -> float:
    began = time.perf_counter()
    for tensor in tensors:
        take(tensor)
    return sum(tensor.nbytes for tensor in tensors) / (time.perf_counter() - began) / 1e9


def measured_by(arena: HostArena) -> Callable[[torch.Tensor], object]:
    def measure(tensor: torch.Tensor) -> None:
        arena.add(tensor, tensor.data_ptr(), tensor.numel(), "torch.float32", None)
        arena.flush()

    return measure


def main() -> None:
    takes = {
        "statistics": measured_by(HostArena(exact=False, checksums=False)),
        "with checksums": measured_by(HostArena(exact=False, checksums=True)),
        "torch.sum": torch.sum,
    }
    for size in SIZES:
        tensors = [torch.rand(size * 250_000) for _ in range(TOGETHER // size)]
        for take in takes.values():
            rate(take, tensors[:1])
        laps = [{name: round(rate(take, tensors), 1) for name, take in takes.items()} for _ in range(LAPS)]
        for name in takes:
            rates = sorted(lap[name] for lap in laps)
            result = {"what": name, "mb": size, "gb_s": rates[LAPS // 2], "laps": rates}
            print(json.dumps({"bench": "statistics", **result}), flush=True)


if __name__ == "__main__":
    main()
