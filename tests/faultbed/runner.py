"""Runs the bed: `python -m tests.faultbed FOLDER`; cases whose lines are in FOLDER/results.jsonl are left out.

--only MODEL/KIND     cases and clean pairs whose name contains this (`llama/NaN`, `clean/`, `/noise/large`)
--held-out            the held-out models and kinds, which are left out without it, and nothing else
--recompare           compare the recorded runs again and write the lines anew; nothing is recorded
--sample COUNT        so many cases, chosen by a fixed seed
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.faultbed import cases, clean, models

PROCESSES = 2
AT_ONCE = 6  # cases that a process is handed together
CLEAN_SHARE = 4  # one of so many cases of a sample is a clean pair
Line = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.jsonl"
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn"), initializer=_start) as pool:
        if options.recompare:
            return _recompare(pool, folder, results, options)
        names = sorted(cases.SUBJECTS if options.held_out else models.SUBJECTS)
        if options.only.split("/")[0] in (*cases.SUBJECTS, "clean"):
            names = [name for name in names if name == options.only.split("/")[0]]
        chosen: list[cases.Case] = []
        for found in pool.map(_prepare, [folder] * len(names), names):
            chosen += [case for case in found if case.is_held_out == options.held_out]
        chosen = [case for case in chosen if options.only in case.name]
        pairs = [] if options.held_out else [pair for pair in clean.BY_NAME if options.only in pair]
        if options.sample:
            chosen, pairs = _sample(chosen, pairs, options.sample)
        done = {line["id"].rsplit("/", 1)[0].removesuffix("/noisy").removesuffix("/plain") for line in read(results)}
        jobs: list[tuple[Callable[..., list[Line]], Any]] = [(_run_pairs, [name]) for name in pairs if name not in done]
        jobs += [(_run_cases, part) for part in _parts([case for case in chosen if case.name not in done])]
        random.Random(0).shuffle(jobs)  # what an interrupted bed has run is a fair part of it
        _run_jobs(pool, folder, jobs, results)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--recompare", action="store_true")
    parser.add_argument("--sample", type=int, default=0)
    return parser.parse_args(arguments)


def read(results: Path) -> list[Line]:
    """Return the lines of a results file; of two with the same id the later."""
    if not results.exists():
        return []
    lines = [json.loads(text) for text in results.read_text().splitlines() if text.endswith("}")]
    return list({line["id"]: line for line in lines}.values())


def _sample(chosen: list[cases.Case], pairs: list[str], count: int) -> tuple[list[cases.Case], list[str]]:
    """Return cases and clean pairs of a fixed seed; those on ranks and on many rows take too long here."""
    generator = random.Random(20)
    quick = [name for name in pairs if not clean.BY_NAME[name].is_slow]
    clean_count = count // CLEAN_SHARE
    return generator.sample(chosen, count - clean_count), generator.sample(quick, clean_count)


def _parts(chosen: list[cases.Case]) -> Iterator[list[cases.Case]]:
    for first in range(0, len(chosen), AT_ONCE):
        yield chosen[first : first + AT_ONCE]


def _run_jobs(
    pool: ProcessPoolExecutor, folder: Path, jobs: list[tuple[Callable[..., list[Line]], Any]], results: Path
) -> None:
    began, futures = time.monotonic(), [pool.submit(function, folder, part) for function, part in jobs]
    with results.open("a") as file:
        for count, future in enumerate(as_completed(futures), 1):
            for line in future.result():
                file.write(json.dumps(line) + "\n")
            file.flush()
            print(f"{count} of {len(jobs)} jobs, {time.monotonic() - began:.0f} s", flush=True)


def _recompare(pool: ProcessPoolExecutor, folder: Path, results: Path, options: argparse.Namespace) -> int:
    lines = read(results)
    chosen = [line for line in lines if options.only in line["id"] and line.get("held_out", False) == options.held_out]
    parts = [chosen[first : first + 4 * AT_ONCE] for first in range(0, len(chosen), 4 * AT_ONCE)]
    fresh = {line["id"]: line for part in pool.map(_compare_lines, [folder] * len(parts), parts) for line in part}
    unfinished = results.with_suffix(".new")
    unfinished.write_text("".join(json.dumps(fresh.get(line["id"], line)) + "\n" for line in lines))
    unfinished.replace(results)
    for task in cases.TASKS:
        of_task = [line for line in fresh.values() if line["task"] == task]
        print(f"{task}: {summary(of_task)}")
    return 0


def summary(lines: list[Line]) -> str:
    """Return in a sentence how many of the large and moderate faults are named and how many clean pairs are blamed."""
    faults = [line for line in lines if "kind" in line and not line["void"] and line["strength"] != "near"]
    plain = [line for line in faults if line["baseline"] == "plain"]
    noisy = [line for line in faults if line["baseline"] == "noisy"]
    pairs = [line for line in lines if "clean" in line]
    return (
        f"named {sum(line['named'] for line in plain)} of {len(plain)} large and moderate faults, "
        f"{sum(line['named'] for line in noisy)} of {len(noisy)} through noise; "
        f"blamed {sum(line['blamed'] for line in pairs)} of {len(pairs)} clean pairs"
    )


def _start() -> None:
    import torch

    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def _prepare(folder: Path, name: str) -> list[cases.Case]:
    subject = cases.SUBJECTS[name]
    cases.record_baselines(folder, subject)
    return cases.cases_of(folder, subject)


def _run_cases(folder: Path, part: list[cases.Case]) -> list[Line]:
    return [line for case in part for line in _tried(lambda case=case: cases.run_case(folder, case), case.name)]  # type: ignore[misc]


def _run_pairs(folder: Path, names: list[str]) -> list[Line]:
    return [line for name in names for line in _tried(lambda name=name: clean.run_pair(folder, name), name)]  # type: ignore[misc]


def _tried(run: Callable[[], list[Line]], name: str) -> list[Line]:
    """Return what a case gives; one that raises is told and run again the next time."""
    try:
        return run()
    except (RuntimeError, ValueError, TypeError, AttributeError, LookupError, OSError):
        print(f"{name} was not run:\n{traceback.format_exc()}", flush=True)
        return []


def _compare_lines(folder: Path, lines: list[Line]) -> list[Line]:
    return [
        clean.compare_pair_again(folder, line) if "clean" in line else cases.compare_again(folder, line)
        for line in lines
    ]
