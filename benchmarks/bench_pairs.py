"""Compare pairs of tensors of 64 MB, cached, and one pair of 8 GB: the pair kernel against float64 torch.

Budget, fixed beforehand: 5 GB/s for float32, both sides counted, on two cores; a pair of 8 GB
in a process of less than 1 GiB. Files are mapped, as they are when runs are compared; `equal`
is a pair with equal bytes, `torch` the same metrics in several passes.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from torchparity import HostTensor
from torchparity.kernels.pairs import compare_pair
from torchparity.tensors import DTYPES

DTYPES_SHOWN = ("float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "int64", "bool", "complex64")
BUDGET = {"float32": 5.0, "large_mib": 1024}
CHUNK = 1 << 26


def normal(nbytes: int, dtype: str, seed: int) -> np.ndarray:
    kind = DTYPES[f"torch.{dtype}"]
    return (1 + np.random.default_rng(seed).normal(size=nbytes // kind.itemsize)).astype(kind)


def mapped(path: Path, dtype: str) -> HostTensor:
    with path.open("rb") as file:
        raw = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    return HostTensor(f"torch.{dtype}", raw.view(DTYPES[f"torch.{dtype}"]))


def by_torch(candidate: np.ndarray, baseline: np.ndarray) -> tuple[torch.Tensor, ...]:
    left, right = torch.from_numpy(candidate).double(), torch.from_numpy(baseline).double()
    error = (left - right).abs()
    relative = error / torch.where(right == 0, 2**-23, right.abs())
    cosine = torch.nn.functional.cosine_similarity(left, right, dim=0)
    near = (relative < 0.001).sum(), (relative < 0.005).sum()
    return cosine, (left - right).norm(), error.max(), relative.max(), *near, left.isfinite().all()


def speed(work: Callable[[], object], moved: int, laps: int) -> float:
    """Return the median GB/s; the first lap compiles."""
    times = []
    for _ in range(laps + 1):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return round(moved / statistics.median(times[1:]) / 1e9, 2)


def speeds(folder: Path, nbytes: int, laps: int) -> dict[str, float]:
    found = {}
    for dtype in DTYPES_SHOWN:
        arrays = [normal(nbytes, dtype, seed) for seed in (0, 1)]
        sides = []
        for seed, array in enumerate(arrays):
            array.tofile(folder / f"{dtype}.{seed}")
            sides.append(mapped(folder / f"{dtype}.{seed}", dtype))
        found[dtype] = speed(lambda sides=sides: compare_pair(*sides), 2 * nbytes, laps)
        if dtype == "float32":
            shutil.copy(folder / "float32.0", folder / "copy")
            same = sides[0], mapped(folder / "copy", dtype)
            one, other = (HostTensor.from_numpy(array) for array in arrays)
            found["equal"] = speed(lambda same=same: compare_pair(*same), 2 * nbytes, laps)
            found["in_memory"] = speed(lambda one=one, other=other: compare_pair(one, other), 2 * nbytes, laps)
            found["one_core"] = speed(lambda one=one, other=other: compare_pair(one, other, parts=1), 2 * nbytes, laps)
            found["torch"] = speed(lambda arrays=arrays: by_torch(*arrays), 2 * nbytes, min(laps, 3))
    return found


def write_large(path: Path, nbytes: int, seed: int) -> None:
    chunk = normal(min(nbytes, CHUNK), "float32", seed)
    with path.open("wb") as file:
        for first in range(0, nbytes, CHUNK):
            file.write(chunk[: (nbytes - first) // 4].tobytes())


def large_memory(folder: Path, nbytes: int) -> int:
    """Return the peak resident MiB of a process that compares two large files."""
    for seed in (0, 1):
        write_large(folder / f"large.{seed}", nbytes, seed)
    arguments = [sys.executable, __file__, "--large-only", str(folder)]
    return int(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=64_000_000)
    parser.add_argument("--large-bytes", type=int, default=8_000_000_000, help="0 leaves the large pair out")
    parser.add_argument("--laps", type=int, default=15)
    parser.add_argument("--folder", type=Path, default=Path("bench_data"))
    parser.add_argument("--large-only", type=Path)
    options = parser.parse_args()
    if options.large_only:
        compare_pair(*(mapped(options.large_only / f"large.{seed}", "float32") for seed in (0, 1)))
        # Not getrusage: a process inherits the peak of the one that started it.
        print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024)
        return
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir()
    result: dict[str, object] = {"bench": "pairs", "mb": options.bytes / 1e6, "cores": os.cpu_count()}
    result |= {"gb_s": speeds(options.folder, options.bytes, options.laps)}
    if options.large_bytes:
        result |= {"large_mib": large_memory(options.folder, options.large_bytes)}
    shutil.rmtree(options.folder)
    print(json.dumps(result | {"budget": BUDGET}))


if __name__ == "__main__":
    main()
