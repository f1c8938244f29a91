"""Compare runs of 4, 16 and 64 ranks of 200 MB a side: threads, a Ray cluster of two nodes, and msprobe rank by rank.

Budgets: a further rank costs as much from 16 ranks to 64 as from 4 to 16 (at most 1.2x, in processor time, which
neither start-up nor other programs change); the process needs less than 1.5 GiB for 64 ranks. Values are .pt files,
which msprobe reads too. TORCHPARITY_PEER names the Python of an environment with mindstudio-probe 26.2.0. Only some
ranks are written, by default 8; the others are hard links to their files, so the disk need not hold 26 GB and every lap
reads cached files. Engines are paired: each lap has all of them in turn.
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
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.ray_cluster import Cluster, two_nodes
from torchparity import HostTensor, Record, RunWriter, TensorLeaf

TENSOR = 1 << 18  # elements of float32, a MiB
MOST_MIB = 1536
FLAT = 1.2


def write_rank(run: Path, rank: int, mebibytes: int, shift: float) -> None:
    """Write one rank: calls with an input and an output; every second output is off by `shift` in places."""
    rng = np.random.default_rng(rank)
    with RunWriter(run, task="tensor", rank=rank, tensor_format="pt") as writer:
        writer.start_step(0)
        for call in range(mebibytes // 2):
            arrays = [rng.standard_normal(TENSOR, dtype=np.float32) for _ in range(2)]
            arrays[1][::100] *= 1 + shift * (call % 2)
            tensors = dict(zip(("input.0", "output.0"), map(HostTensor.from_numpy, arrays), strict=True))
            leaves = [TensorLeaf(dtype=tensor.dtype, shape=tensor.shape) for tensor in tensors.values()]
            name = f"Torch.exp.{call}.forward"
            writer.add(Record(name=name, direction="forward", input_args=leaves[:1], output=leaves[1:]), tensors)


def write(folder: Path, ranks: int, distinct: int, mebibytes: int) -> None:
    for name, shift in (("candidate", 1e-3), ("baseline", 0.0)):
        for rank in range(ranks):
            if rank < distinct:
                write_rank(folder / name, rank, mebibytes, shift)
            else:
                link(folder / name, rank % distinct, folder / name, rank)


def link(source: Path, rank: int, run: Path, as_rank: int) -> None:
    """Make a rank of a run whose files are those of another rank."""
    of, to = source / "step0" / f"rank{rank}", run / "step0" / f"rank{as_rank}"
    shutil.copytree(of, to, copy_function=os.link)


def some_ranks(folder: Path, ranks: int) -> Path:
    """Return a folder with runs of the first ranks."""
    place = folder / f"first{ranks}"
    for name in ("candidate", "baseline"):
        for rank in range(ranks):
            link(folder / name, rank, place / name, rank)
    return place


class Lap(NamedTuple):
    """What a command took: seconds by the clock, seconds of processors, and the peak of its memory in MiB."""

    seconds: float
    processor: float
    peak: int


def lap(command: list[str], environment: dict[str, str] | None = None) -> Lap:
    """Run a command; its children's work does not count, so of a cluster's only what is done here."""
    began, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # The peak is not getrusage's, which begins with what this process has.
    while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
        with suppress(OSError, IndexError):
            peak = int(Path(f"/proc/{process.pid}/status").read_text().split("VmHWM:")[1].split()[0]) // 1024
        time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(ended[1])
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed")
    return Lap(time.perf_counter() - began, ended[2].ru_utime + ended[2].ru_stime, peak)


def ours(runs: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "torchparity", "compare", str(runs / "candidate"), str(runs / "baseline"), *options]


def engines(folder: Path, counts: list[int], laps: int, cluster: Cluster) -> list[dict[str, object]]:
    """Return for each number of ranks what threads and the cluster took, and how much memory."""
    places = {count: some_ranks(folder, count) for count in counts}
    found: dict[tuple[int, str], list[Lap]] = {}
    for _ in range(laps):
        for count, place in places.items():
            found.setdefault((count, "local"), []).append(lap(ours(place)))
            on_ray = ours(place, "--engine", "ray", "--address", cluster.address)
            found.setdefault((count, "ray"), []).append(lap(on_ray, cluster.environment))
    return [
        {
            "bench": "ranks",
            "engine": engine,
            "ranks": count,
            "seconds": [round(one.seconds, 2) for one in each],
            "processor": [round(one.processor, 2) for one in each],
            "peak_mib": max(one.peak for one in each),
        }
        for (count, engine), each in sorted(found.items(), key=lambda entry: entry[0][::-1])
    ]


def against_msprobe(folder: Path, python: str, ranks: int) -> dict[str, object]:
    """Return the seconds of some ranks one by one, ours and msprobe's in turn."""
    times: dict[str, list[float]] = {"ours": [], "msprobe": []}
    program = str(Path(python).with_name("msprobe"))
    for rank in range(ranks):
        sides = [folder / name / "step0" / f"rank{rank}" for name in ("candidate", "baseline")]
        output = folder / "output"
        asked = [sys.executable, "-m", "torchparity", "compare", *map(str, sides), "-o", str(output), "--xlsx"]
        times["ours"].append(lap(asked).seconds)
        left, right = (str(side / "dump.json") for side in sides)
        peer = [program, "compare", "-tp", left, "-gp", right, "-o", str(output), "--xlsx"]
        times["msprobe"].append(lap(peer).seconds)
        shutil.rmtree(output, ignore_errors=True)
    ratios = sorted(peer / own for own, peer in zip(times["ours"], times["msprobe"], strict=True))
    rounded = {name: [round(seconds, 2) for seconds in each] for name, each in times.items()}
    return {"bench": "ranks_msprobe", "seconds": rounded, "ratios": [round(ratio, 1) for ratio in ratios]}


def verdict(rows: list[dict[str, object]]) -> dict[str, object]:
    """Return whether threads meet the budgets, and what each further rank took, by the clock and of processors."""
    local = {row["ranks"]: row for row in rows if row["engine"] == "local"}
    further = {
        measure: {
            f"{few} to {many}": round(
                (statistics.median(local[many][measure]) - statistics.median(local[few][measure])) / (many - few), 3
            )
            for few, many in pairwise(sorted(local))
        }
        for measure in ("seconds", "processor")
    }
    costs = list(further["processor"].values())
    growth, peak = costs[-1] / costs[0], local[max(local)]["peak_mib"]
    is_met = growth <= FLAT and peak < MOST_MIB
    return {"bench": "ranks_budget", "further": further, "growth": round(growth, 2), "peak_mib": peak, "met": is_met}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("bench_data") / "ranks", help="removed when all is done")
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--distinct", type=int, default=8, help="ranks that are written; the others are links")
    parser.add_argument("--megabytes", type=int, default=200, help="of a rank, on each side")
    parser.add_argument("--laps", type=int, default=3)
    parser.add_argument("--peer-ranks", type=int, default=3, help="ranks that msprobe compares")
    options = parser.parse_args()
    folder = options.folder.absolute()
    try:
        write(folder, max(options.ranks), min(options.distinct, max(options.ranks)), options.megabytes)
        lap(ours(folder))  # compiles and fills the cache
        with two_nodes() as cluster:
            rows = engines(folder, options.ranks, options.laps, cluster)
        for row in [*rows, verdict(rows)]:
            print(json.dumps(row), flush=True)
        if peer := os.environ.get("TORCHPARITY_PEER"):
            print(json.dumps(against_msprobe(folder, peer, options.peer_ranks)), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
