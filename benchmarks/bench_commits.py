"""The cost of recording now against an earlier commit: both in paired laps of one run.

    git worktree add ../earlier COMMIT
    python benchmarks/bench_commits.py ../earlier/src [--device cuda | --model llama] [--laps 15] [--modes ...]

Each side has a process of its own, which waits while the other works; the two take turns in going first. A lap is a
recording of some steps from opening to closing. Budget: the interval of the median of the ratios, at 95 %, contains
1.00 or lies below. Beside wall time the CPU time of the training's thread and of all threads that the recording
started and ended (the writer's), by `time.thread_time`.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODES = ["statistics-L1", "statistics-L0", "statistics-mix", "md5-L1", "tensor-L1", "idle"]
STEPS = {"tensor-L1": 1}


class ThreadTimes:
    """Adds up the CPU time of threads that began and ended since it was asked last."""

    def __init__(self) -> None:
        self._total, self._lock, run = 0.0, threading.Lock(), threading.Thread.run

        def timed(thread: threading.Thread) -> None:
            began = time.thread_time()
            try:
                run(thread)
            finally:
                with self._lock:
                    self._total += time.thread_time() - began

        threading.Thread.run = timed

    def take(self) -> float:
        total, self._total = self._total, 0.0
        return total


def work(source: str, device: str, model_name: str, steps: int) -> None:
    """Record a lap for each mode that comes in on standard input; print what it took."""
    sys.path[:0] = [source, str(HERE)]
    import gpt
    import llama
    import recorders
    import torch

    logging.disable(logging.INFO)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    threads = ThreadTimes()
    size = gpt.GPU if device == "cuda" else gpt.CPU
    model, step = llama.training() if model_name == "llama" else gpt.training(size, device)
    for _ in range(3):
        step()
    folder = Path("bench_data") / f"commits-{abs(hash(source))}"
    for line in sys.stdin:
        mode = line.strip()
        shutil.rmtree(folder, ignore_errors=True)
        record = recorders.ours_idle if mode == "idle" else recorders.ours
        threads.take()
        wait()
        began, thread_began = time.perf_counter(), time.thread_time()
        record(model, step, "statistics-mix" if mode == "idle" else mode, folder / "run", STEPS.get(mode, steps))
        wait()
        took = time.perf_counter() - began, time.thread_time() - thread_began, threads.take()
        print("LAP " + json.dumps(took), flush=True)
    shutil.rmtree(folder, ignore_errors=True)


class Side:
    """One source tree in a process of its own."""

    def __init__(self, source: Path, device: str, model: str, steps: int) -> None:
        training = ["--device", device, "--model", model, "--steps", str(steps)]
        arguments = [sys.executable, __file__, str(source), "--work", *training]
        self._process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def lap(self, mode: str) -> list[float]:
        """Return seconds of wall time, of the training's thread and of the recording's threads."""
        self._process.stdin.write(f"{mode}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("LAP "):
                return json.loads(line.removeprefix("LAP "))
        raise SystemExit(f"a side ended with {self._process.wait()}")

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def interval(ratios: list[float]) -> list[float]:
    """Return the narrowest pair of order statistics that holds the median with at least 95 %."""
    ordered, number = sorted(ratios), len(ratios)
    tail, rank = 0.0, 0
    while rank < number // 2 and tail + math.comb(number, rank) / 2**number <= 0.025:
        tail += math.comb(number, rank) / 2**number
        rank += 1
    return [round(ordered[max(0, rank - 1)], 3), round(ordered[min(number - 1, number - rank)], 3)]


def compare(old: Side, new: Side, mode: str, laps: int) -> dict[str, object]:
    pairs = []
    for number in range(laps + 1):
        first, second = (old, new) if number % 2 else (new, old)
        took = {first: first.lap(mode), second: second.lap(mode)}
        if number:  # the first is a warm-up
            pairs.append((took[old], took[new]))
    ratios = [after[0] / before[0] for before, after in pairs]
    low, high = interval(ratios)
    return {
        "mode": mode,
        "laps": laps,
        "ratio": round(statistics.median(ratios), 3),
        "interval": [low, high],
        "is_within_budget": low <= 1.0,
        "old_ms": round(1000 * statistics.median(before[0] for before, _ in pairs), 1),
        "new_ms": round(1000 * statistics.median(after[0] for _, after in pairs), 1),
        "training_thread": _ratio(pairs, 1),
        "writer_threads": _ratio(pairs, 2),
    }


def _ratio(pairs: list[tuple[list[float], list[float]]], column: int) -> float | None:
    ratios = [after[column] / before[column] for before, after in pairs if before[column] > 0.001]
    return round(statistics.median(ratios), 3) if ratios else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the src folder of the earlier commit")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--model", choices=["gpt", "llama"], default="gpt", help="llama: small, of transformers, on the CPU"
    )
    parser.add_argument("--laps", type=int, default=15)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(str(options.source), options.device, options.model, options.steps)
        return
    sources = options.source.resolve(), HERE.parent / "src"
    old, new = (Side(source, options.device, options.model, options.steps) for source in sources)
    for mode in options.modes:
        print(
            json.dumps(
                {"bench": f"commits_{options.device}", "model": options.model, **compare(old, new, mode, options.laps)}
            ),
            flush=True,
        )
    old.close()
    new.close()


if __name__ == "__main__":
    main()
