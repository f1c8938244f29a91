"""Compare two runs of the 8-layer GPT in gpt.py, all tensors, recorded by msprobe: ours and msprobe on the same files.

Budgets, fixed beforehand: tensors at least 25x faster than the faster msprobe (2.8 GB/s on 2 cores, files cached);
statistics with xlsx at least 10x faster including start-up; a pair of 8 GB tensors under 1 GiB of memory; 1,000,000
rows of statistics to csv and parquet in 30 s. TORCHPARITY_PEER and TORCHPARITY_PEER_OLD name the Pythons of
environments with mindstudio-probe 26.2.0 and 8.2.0; the older one records the runs. A lap is a whole command.
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
from pathlib import Path

import numpy as np

from torchparity import Record, RunWriter, TensorLeaf
from torchparity.records import Statistics

DATA = Path("bench_data") / "compare"
RECORD = """
import sys, torch
sys.path.insert(0, {here!r})
import gpt, json, pathlib
from msprobe.pytorch import PrecisionDebugger
torch.manual_seed(0)
model, step = gpt.training(gpt.CPU, "cpu")
if {scale}:
    with torch.no_grad():
        model.blocks[3].norm1.weight.mul_({scale})
step()
config = pathlib.Path({config!r})
asked = {{"task": {task!r}, "dump_path": {out!r}, "rank": [], "step": [], "level": "mix", {task!r}: {{}}}}
config.write_text(json.dumps(asked))
debugger = PrecisionDebugger(str(config))
debugger.start(model); step(); debugger.stop(); debugger.step()
"""


def record(python: str, task: str, name: str, scale: float) -> Path:
    out = (DATA / f"{task}-{name}").absolute()
    if not out.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        here = str(Path(__file__).parent)
        config = str((DATA / "config.json").absolute())
        code = RECORD.format(here=here, scale=scale, config=config, task=task, out=str(out))
        subprocess.run([python, "-c", code], check=True, capture_output=True)
    return out


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def ours(candidate: Path, baseline: Path, output: Path, *extra: str) -> list[str]:
    program = str(Path(sys.executable).with_name("torchparity"))
    return [program, "compare", str(candidate), str(baseline), "-o", str(output), *extra]


def peers(candidate: Path, baseline: Path, output: Path) -> dict[str, list[str]]:
    """Return the command of each msprobe that is installed; both read dump.json of one rank."""
    found: dict[str, list[str]] = {}
    left, right = (next(run.rglob("dump.json")) for run in (candidate, baseline))
    if new := os.environ.get("TORCHPARITY_PEER"):
        found["msprobe 26.2.0"] = [new.replace("python", "msprobe"), "compare", "-tp", str(left), "-gp", str(right)]
        found["msprobe 26.2.0"] += ["-o", str(output), "--xlsx"]
    if old := os.environ.get("TORCHPARITY_PEER_OLD"):
        asked = DATA / "compare.json"
        asked.write_text(json.dumps({"npu_path": str(left), "bench_path": str(right), "is_print_compare_log": False}))
        found["msprobe 8.2.0"] = [old.replace("python", "msprobe"), "-f", "pytorch", "compare", "-i", str(asked)]
        found["msprobe 8.2.0"] += ["-o", str(output)]
    return found


def race(task: str, candidate: Path, baseline: Path, laps: int) -> dict[str, object]:
    """Return what each took; a lap of ours stands beside each lap of a peer."""
    output = DATA / "output"
    size = sum(file.stat().st_size for run in (candidate, baseline) for file in run.rglob("*") if file.is_file()) / 1e9
    times: dict[str, list[float]] = {"ours": []}
    for _ in range(laps):
        times["ours"].append(seconds(ours(candidate, baseline, output, "--format", "xlsx")))
        for name, command in peers(candidate, baseline, output).items():
            times.setdefault(name, []).append(seconds(command))
    shutil.rmtree(output, ignore_errors=True)
    median = {name: statistics.median(laps) for name, laps in times.items()}
    fastest = min((value for name, value in median.items() if name != "ours"), default=None)
    return {
        "bench": f"compare_{task}",
        "gb": round(size, 2),
        "seconds": {name: [round(lap, 2) for lap in laps] for name, laps in times.items()},
        "gb_s": round(size / median["ours"], 2),
        "ratio": round(fastest / median["ours"], 1) if fastest else None,
    }


def large_pair(gigabytes: int) -> dict[str, object]:
    """Return time and peak memory of comparing two tensors of some GB; the writer needs one in memory."""
    for name in ("left", "right"):
        path = DATA / f"large-{name}"
        if not path.exists():
            code = (
                "import sys, numpy as np; from torchparity import *\n"
                "path, count = sys.argv[1], int(sys.argv[2]) * 250_000_000\n"
                "block = np.random.default_rng(0).standard_normal(1_000_000, dtype=np.float32)\n"
                "values = np.resize(block, count)\n"
                f"values[::1000] *= {1.001 if name == 'left' else 1.0}\n"
                "leaf = TensorLeaf(dtype='torch.float32', shape=(count,))\n"
                "with RunWriter(path, task='tensor') as writer:\n"
                "    writer.start_step(0)\n"
                "    record = Record(name='Torch.exp.0.forward', direction='forward', output=[leaf])\n"
                "    writer.add(record, {'output.0': HostTensor.from_numpy(values)})\n"
            )
            subprocess.run([sys.executable, "-c", code, str(path), str(gigabytes)], check=True)
    code = (
        "import sys, torchparity; done = torchparity.compare(*sys.argv[1:]); print(done.headline())\n"
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    )
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, str(DATA / "large-left"), str(DATA / "large-right")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    took = time.perf_counter() - began
    peak = int(done.stdout.split()[-1]) // 1024
    return {"bench": "compare_large", "gb": gigabytes, "seconds": round(took, 1), "peak_mib": peak, "budget_mib": 1024}


def many_rows(rows: int) -> dict[str, object]:
    """Return the time of comparing many rows of statistics, from the command's start to both files on disk."""
    for name, shift in (("many-left", 1e-3), ("many-right", 0.0)):
        if not (DATA / name).exists():
            write_many(DATA / name, rows, shift)
    took = seconds(ours(DATA / "many-left", DATA / "many-right", DATA / "output", "--format", "csv,parquet", "-c"))
    shutil.rmtree(DATA / "output")
    return {"bench": "compare_rows", "rows": rows, "seconds": round(took, 1), "budget": 30}


def write_many(path: Path, rows: int, shift: float) -> None:
    numbers = np.random.default_rng(0).normal(size=(rows, 4)).tolist()
    with RunWriter(path, task="statistics") as writer:
        writer.start_step(0)
        for index in range(0, rows, 4):
            leaves = [
                TensorLeaf(
                    dtype="torch.float32",
                    shape=(64, 64),
                    statistics=Statistics(max=a + shift, min=b, mean=c, norm=abs(d)),
                    requires_grad=True,
                )
                for a, b, c, d in numbers[index : index + 4]
            ]
            name = f"Torch.op{index % 97}.{index // 4}.forward"
            writer.add(Record(name=name, direction="forward", input_args=leaves[:3], output=leaves[3:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--laps", type=int, default=3)
    parser.add_argument("--only", choices=["tensor", "statistics", "large", "rows"], nargs="+")
    parser.add_argument("--keep", action="store_true", help="keep the recorded runs for the next time")
    options = parser.parse_args()
    wanted = options.only or ["tensor", "statistics", "large", "rows"]
    recorder = os.environ.get("TORCHPARITY_PEER_OLD")
    for task in ("tensor", "statistics"):
        if task in wanted and recorder:
            runs = [record(recorder, task, name, scale) for name, scale in (("left", 1.01), ("right", 0))]
            print(json.dumps(race(task, *runs, options.laps)), flush=True)
    if "large" in wanted:
        print(json.dumps(large_pair(8)), flush=True)
    if "rows" in wanted:
        print(json.dumps(many_rows(1_000_000)), flush=True)
    if not options.keep:
        shutil.rmtree(DATA, ignore_errors=True)


if __name__ == "__main__":
    main()
