"""Write and read 2,800 tensors, 4 GB, half of them repeats: RunWriter and open_run against torch.save and torch.load.

Budget, fixed beforehand: at least 3x the write and 5x the read throughput, at most 0.55x
the bytes, and the writer's process under 1 GiB. Both sides read verified bytes: torch
checks the archive's CRC-32, we check ours. Laps alternate, so both meet the same mood of
the machine; between laps, outside the clock, the disk comes to rest.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from torchparity import HostTensor, Record, RunWriter, TensorLeaf, from_torch, open_run

TENSORS = 2_800
SETTLE = 3.0
BUDGET = {"write": 3.0, "read": 5.0, "bytes": 0.55, "writer_mib": 1024}


def sizes(total_bytes: int) -> list[int]:
    """Return the element counts of the distinct half: many small tensors, few large, as in a model."""
    spread = np.random.default_rng(0).lognormal(sigma=1.5, size=TENSORS // 2)
    return [max(1, int(part)) for part in spread / spread.sum() * (total_bytes / 2 / 4)]


def distinct(total_bytes: int) -> Iterator[torch.Tensor]:
    for index, count in enumerate(sizes(total_bytes)):
        yield torch.randn(count, generator=torch.Generator().manual_seed(index))


def write_ours(folder: Path, tensors: Iterator[torch.Tensor]) -> None:
    """Each tensor is the output of one call and the input of the next, as in a recorded step."""
    with RunWriter(folder, task="tensor") as writer:
        writer.start_step(0)
        for index, tensor in enumerate(tensors):
            host = from_torch(tensor)
            leaf = TensorLeaf(dtype=host.dtype, shape=host.shape)
            writer.add(Record(name=f"Torch.a.{index}.forward", direction="forward", output=[leaf]), {"output.0": host})
            # Another object with equal bytes: found by content, not by identity.
            writer.add(
                Record(name=f"Torch.b.{index}.forward", direction="forward", input_args=[leaf]),
                {"input.0": HostTensor(host.dtype, host.array.copy())},
            )


def write_torch(folder: Path, tensors: Iterator[torch.Tensor]) -> None:
    folder.mkdir()
    for index, tensor in enumerate(tensors):
        torch.save(tensor, folder / f"a.{index}.pt")
        torch.save(tensor.clone(), folder / f"b.{index}.pt")


def read_ours(folder: Path) -> int:
    return sum(tensor.nbytes for _, tensor in open_run(folder).part().values())


def read_torch(folder: Path) -> int:
    return sum(torch.load(file, weights_only=True).nbytes for file in folder.glob("*.pt"))


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def settle() -> None:
    """Let the disk finish what it was given, deletions included, before the next lap."""
    os.sync()
    time.sleep(SETTLE)
    os.sync()


def bytes_on_disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure(folder: Path, total_bytes: int, laps: int) -> dict[str, object]:
    pool = list(distinct(total_bytes))
    work: dict[str, tuple[Callable[..., None], Callable[[Path], int]]] = {
        "ours": (write_ours, read_ours),
        "torch": (write_torch, read_torch),
    }
    times: dict[str, list[float]] = {f"{side}_{verb}": [] for side in work for verb in ("write", "read")}
    sizes_on_disk: dict[str, int] = {}
    for lap in range(laps + 1):
        for side, (write, read) in work.items():
            target = folder / side
            wrote = seconds(lambda write=write, target=target: write(target, iter(pool)))
            took = seconds(lambda read=read, target=target: read(target))
            sizes_on_disk[side] = bytes_on_disk(target)
            shutil.rmtree(target)
            settle()
            if lap:  # the first is a warm-up
                times[f"{side}_write"].append(wrote)
                times[f"{side}_read"].append(took)
    moved = 2 * sum(tensor.nbytes for tensor in pool) / 1e9
    return summary(times, moved, sizes_on_disk)


def summary(times: dict[str, list[float]], moved: float, on_disk: dict[str, int]) -> dict[str, object]:
    ratios = {
        verb: [theirs / ours for ours, theirs in zip(times[f"ours_{verb}"], times[f"torch_{verb}"], strict=True)]
        for verb in ("write", "read")
    }
    return {
        "gb": round(moved, 2),
        **{f"{key}_gb_s": round(moved / statistics.median(lap), 2) for key, lap in times.items()},
        **{f"{verb}_ratio": round(statistics.median(values), 2) for verb, values in ratios.items()},
        **{f"{verb}_ratios": [round(value, 2) for value in values] for verb, values in ratios.items()},
        "bytes_ratio": round(on_disk["ours"] / on_disk["torch"], 3),
    }


def writer_memory(folder: Path, total_bytes: int) -> int:
    """Return the peak resident MiB of a process that makes the tensors one by one and writes them."""
    arguments = [sys.executable, __file__, "--writer-only", str(folder / "memory"), "--bytes", str(total_bytes)]
    return int(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=4_000_000_000)
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path("bench_data"))
    parser.add_argument("--writer-only", type=Path)
    options = parser.parse_args()
    if options.writer_only:
        write_ours(options.writer_only, distinct(options.bytes))
        # Not getrusage: a process inherits the peak of the one that started it.
        print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024)
        return
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir()
    result: dict[str, object] = {"bench": "storage", "tensors": TENSORS}
    result |= {"writer_mib": writer_memory(options.folder, options.bytes)}
    result |= measure(options.folder, options.bytes, options.laps)
    shutil.rmtree(options.folder)
    print(json.dumps(result | {"budget": BUDGET}))


if __name__ == "__main__":
    main()
