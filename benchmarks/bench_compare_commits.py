"""The time of comparing statistics now against an earlier commit: whole commands in paired laps.

    git worktree add ../earlier COMMIT
    python benchmarks/bench_compare_commits.py ../earlier/src [--laps 20]

The earlier commit records a step of the 8-layer GPT in gpt.py twice, once with other weights in one norm, so that both
commits read the same files. Bytecode is cached, as it is for users. Budget: at most 10 % more.
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

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "bench_data" / "compare_commits"
OUTPUTS = {"headline": [], "xlsx": ["-o", str(DATA / "tables"), "--format", "xlsx"]}
RECORD = """
import sys, torch, gpt, torchparity
torch.manual_seed(0)
model, step = gpt.training(gpt.CPU, "cpu")
with torch.no_grad():
    model.blocks[3].norm1.weight.mul_(float(sys.argv[2]))
with torchparity.capture(sys.argv[1], model=model, level="mix") as recording:
    step()
    recording.step()
"""


def run(source: Path, words: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": f"{source}{os.pathsep}{HERE}", "PYTHONPYCACHEPREFIX": str(DATA / "bytecode")}
    subprocess.run([sys.executable, "-W", "ignore", *words], env=environment, check=True, stdout=subprocess.DEVNULL)


def lap(source: Path, options: list[str]) -> float:
    began = time.perf_counter()
    run(source, ["-m", "torchparity", "compare", str(DATA / "candidate"), str(DATA / "baseline"), *options])
    return time.perf_counter() - began


def compare(old: Path, new: Path, output: str, laps: int) -> dict[str, object]:
    pairs = []
    for number in range(laps + 2):
        first, second = (old, new) if number % 2 else (new, old)
        took = {first: lap(first, OUTPUTS[output]), second: lap(second, OUTPUTS[output])}
        if number > 1:  # the first two fill the caches
            pairs.append((took[old], took[new]))
    return {
        "bench": "compare_commits",
        "output": output,
        "laps": laps,
        "ratio": round(statistics.median(after / before for before, after in pairs), 3),
        "old_s": round(statistics.median(before for before, _ in pairs), 3),
        "new_s": round(statistics.median(after for _, after in pairs), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the src folder of the earlier commit")
    parser.add_argument("--laps", type=int, default=20)
    options = parser.parse_args()
    old, new = options.source.resolve(), HERE.parent / "src"
    shutil.rmtree(DATA, ignore_errors=True)
    for name, factor in (("baseline", "1.0"), ("candidate", "1.01")):
        run(old, ["-c", RECORD, str(DATA / name), factor])
    for output in OUTPUTS:
        print(json.dumps(compare(old, new, output, options.laps)), flush=True)


if __name__ == "__main__":
    main()
