"""The way into a check: calls of a run in, result files out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from torchparity.check.cases import Case
from torchparity.check.checking import check_case, key_of
from torchparity.check.chosen import chosen_cases
from torchparity.check.execution import choose_compilation, device_named
from torchparity.check.judging import Status
from torchparity.check.processes import Process, results_of_processes, undisturbed
from torchparity.check.reproduction import ErrorData
from torchparity.check.results import CaseResult, ResultFiles
from torchparity.check.selection import Selection
from torchparity.check.source import Source
from torchparity.errors import ConfigError

Show = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """All that can be asked of a check; `csv_path` continues an interrupted one."""

    devices: Sequence[str] = ()
    processes: int = 1
    selection: Selection = field(default_factory=Selection)
    folder: Path = Path()
    csv_path: Path | None = None
    formats: Sequence[str] = ("csv",)
    error_data: Path | None = None  # a folder for what failed
    jit_compile: bool = False


@dataclass(kw_only=True)
class CheckSummary:
    """The end of a check: how many calls had which status, those that failed, and the files."""

    device: str
    counts: Counter[str] = field(default_factory=Counter)
    failed: list[CaseResult] = field(default_factory=list)
    warned: list[CaseResult] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # sentences about what of the source cannot be read
    left_out: str = ""  # a sentence about calls of other steps and ranks
    has_many_parts: bool = False  # the calls are of several steps or ranks
    asked: int = 0
    earlier: Counter[str] = field(default_factory=Counter)  # statuses of what was done before
    was_interrupted: bool = False

    @property
    def already_done(self) -> int:
        """The number of calls that an earlier check has done."""
        return sum(self.earlier.values())

    def add(self, result: CaseResult) -> None:
        """Count one call."""
        self.counts[str(result.status)] += 1
        if result.status is Status.ERROR:
            self.failed.append(result)
        elif result.status is Status.WARNING:
            self.warned.append(result)


def check_run(source: Source, options: CheckOptions, show: Show | None = None) -> CheckSummary:
    """Check every call of a run alone; an interrupt from the keyboard keeps what is done."""
    devices = [device_named(word) for word in options.devices] or [device_named(None)]
    selection = options.selection
    chosen = chosen_cases(source, filter_duplicates=selection.filter_duplicates)
    place = chosen.only_place if chosen.cases else (0, 0)
    begun = options.csv_path
    files = ResultFiles.continued(begun, place) if begun else ResultFiles.new(options.folder, place)
    waiting = [case for case in chosen.cases if key_of(case) not in files.done]
    summary = CheckSummary(
        device=", ".join(map(str, devices)),
        files=[files.result, files.details],
        problems=chosen.problems,
        left_out=chosen.left_out,
        has_many_parts=chosen.has_many_parts,
        asked=len(chosen.cases),
    )
    done = (files.done.get(key_of(case)) for case in chosen.cases)
    summary.earlier.update(str(result.status) for result in done if result is not None)
    with files, undisturbed():
        if files.done and not summary.earlier:
            named = f"{next(iter(files.done)).name!r}, which the run has not, nor any other of it"
            raise ConfigError(f"-csv_path {options.csv_path} is of another check: it begins with {named}.")
        count = max(options.processes, len(devices))
        if count > 1:
            on = [Process(str(devices[index % len(devices)]), options.jit_compile) for index in range(count)]
            results = results_of_processes(source, selection, waiting, on)
        else:
            choose_compilation(devices[0], jit_compile=options.jit_compile)
            results = (check_case(case, devices[0], selection).result for case in waiting)
        _collect(results, files, summary, show)
        if options.error_data is not None and summary.failed:
            _save(chosen.cases, summary, devices[0], options.error_data)
    others = [name for name in options.formats if name != "csv"]
    if others:
        from torchparity.check.results.tables import write_tables  # polars, which csv does without

        summary.files += write_tables(files.result, files.details, others)
    return summary


def _save(cases: Sequence[Case], summary: CheckSummary, device: torch.device, folder: Path) -> None:
    """Run the calls that failed once more, which gives the same, and save everything about them."""
    failed = {result.key for result in summary.failed}
    with ErrorData(folder, str(device), has_many_parts=summary.has_many_parts) as saved:
        for case in cases:
            if key_of(case) in failed:
                again = check_case(case, device)
                if again.performed is not None:
                    saved.add(again.result, again.performed)
    summary.files.append(folder)


def _collect(results: Iterator[CaseResult], files: ResultFiles, summary: CheckSummary, show: Show | None) -> None:
    try:
        for number, result in enumerate(results, 1):
            files.add(result)
            summary.add(result)
            if show is not None:
                show("checking", summary.already_done + number, summary.asked)
    except KeyboardInterrupt:
        summary.was_interrupted = True
