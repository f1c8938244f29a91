"""Checking in several processes, each on one of the devices, with results in the order of the calls."""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import torch

from torchparity.check.cases import Case, cases_of
from torchparity.check.checking import check_case, key_of
from torchparity.check.execution import choose_compilation
from torchparity.check.results import CallKey, CaseResult, skipped_case
from torchparity.check.selection import Selection
from torchparity.check.source import Source
from torchparity.devices import all_devices

_AT_ONCE = 8  # calls that a process is handed together
_AHEAD = 4  # such handfuls that wait for each process


def results_of_processes(
    source: Source, selection: Selection, cases: Sequence[Case], processes: Sequence[Process]
) -> Iterator[CaseResult]:
    """Yield the results of some calls of a source, in their order; a call that ends its process is skipped."""
    count = len(processes)
    lanes = [_Lane(source, selection, process, count) for process in processes]
    handfuls = [tuple(cases[start : start + _AT_ONCE]) for start in range(0, len(cases), _AT_ONCE)]
    waiting: deque[tuple[_Lane, tuple[Case, ...], Future[list[CaseResult]]]] = deque()
    try:
        for index, handful in enumerate(handfuls):
            lane = lanes[index % count]
            with _interrupts_held():
                waiting.append((lane, handful, lane.submit(handful)))
            if len(waiting) >= count * _AHEAD:
                yield from _finished(*waiting.popleft())
        while waiting:
            yield from _finished(*waiting.popleft())
    finally:
        for lane in lanes:
            lane.end()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let an interrupt from the keyboard wait: a process that starts meanwhile begins with its interrupts held."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Leave the caller's random numbers and warnings as they are, whatever the checked calls draw and warn of."""
    generators = [generator for device in all_devices() for generator in device.generators()]
    states = [generator.get_state() for generator in generators]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


@dataclass(frozen=True)
class Process:
    """The device and the compile mode of one process."""

    device: str
    jit_compile: bool = False


class _Lane:
    """One process at a time, on one device; a new one where the last has died."""

    def __init__(self, source: Source, selection: Selection, process: Process, count: int) -> None:
        self._work = source, selection, process.device
        self._jit_compile = process.jit_compile
        self._threads = max(1, (os.cpu_count() or 1) // count)
        self._pool = self._new_pool()

    def submit(self, cases: tuple[Case, ...]) -> Future[list[CaseResult]]:
        keys = tuple(map(key_of, cases))  # the process reads the calls itself
        try:
            return self._pool.submit(_results, *self._work, keys)
        except BrokenProcessPool:
            self._pool = self._new_pool()
            return self._pool.submit(_results, *self._work, keys)

    def end(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _new_pool(self) -> ProcessPoolExecutor:
        spawning = multiprocessing.get_context("spawn")  # a fork of a process that uses CUDA cannot use it
        return ProcessPoolExecutor(1, spawning, _prepare, (self._threads, self._work[2], self._jit_compile))


def _finished(lane: _Lane, cases: tuple[Case, ...], future: Future[list[CaseResult]]) -> list[CaseResult]:
    try:
        return future.result()
    except BrokenProcessPool:
        if len(cases) > 1:
            return [result for case in cases for result in _finished(lane, (case,), lane.submit((case,)))]
        has_backward = cases[0].backward is not None
        return [skipped_case(key_of(cases[0]), "the process that ran it died", has_backward=has_backward)]


def _prepare(threads: int, device: str, jit_compile: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends this process
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    choose_compilation(torch.device(device), jit_compile=jit_compile)


def _results(source: Source, selection: Selection, device: str, keys: tuple[CallKey, ...]) -> list[CaseResult]:
    cases = [_cases(source, key.step, key.rank)[key.name] for key in keys]
    return [check_case(case, torch.device(device), selection).result for case in cases]


@cache
def _cases(source: Source, step: int, rank: int) -> dict[str, Case]:
    return {case.name: case for case in cases_of(source.part(step, rank))}
