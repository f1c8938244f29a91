"""The output of a recording: steps are handed to the writer, and the closing line is printed."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from torchparity.config import CaptureConfig
from torchparity.errors import ParityError
from torchparity.recording.selection.selection import Selection
from torchparity.recording.step.pending_step import PendingStep
from torchparity.recording.writing.closing_line import closing_line
from torchparity.recording.writing.only_differing import OnlyDiffering
from torchparity.records import Record
from torchparity.storage import DiskUsage, RunWriter, SharedTensor, StepReport
from torchparity.text import counted
from torchparity.whole_file import with_home

_log = logging.getLogger("torchparity")
_WITH_APIS = ("L1", "mix")
_WITH_VALUES = ("tensor", "overflow_check")  # tasks that keep the values of every record


class Output:
    """The run that one rank of a recording writes; opening it raises, writing it never does."""

    def __init__(
        self,
        config: CaptureConfig,
        selection: Selection,
        *,
        level: str,
        rank: int,
        environment: Mapping[str, str] | None = None,
        disk_usage: DiskUsage = shutil.disk_usage,
    ) -> None:
        self._task, self._selection = config.task, selection
        tensor, is_tensor = config.tensor, config.task in _WITH_VALUES
        self._has_extra = config.extra_info or config.task == "structure"
        self._has_values = is_tensor or bool(config.statistics.tensor_list)
        self._differing: OnlyDiffering | None = None
        if is_tensor and tensor.bench_path is not None:
            self._differing = OnlyDiffering(Path(tensor.bench_path), most=tensor.diff_nums, rank=rank)
        self._writer = RunWriter(
            with_home(config.dump_path),
            task=config.task,
            level=level,
            rank=rank,
            tensor_format=tensor.tensor_format if is_tensor else "safetensors",
            overwrite=config.overwrite,
            environment=environment or {},
            has_every_call=level in _WITH_APIS and config.risk_level != "CORE" and selection.leaves_nothing_out,
            skip_unwritable=True,
            max_bytes=config.max_bytes,
            disk_usage=disk_usage if self._has_values else None,
        )
        if warning := self._writer.space_warning():
            _log.warning("torchparity: %s", warning)
        self._failure: ParityError | None = None
        self._refused: list[str] = []
        self._begun: int | None = None
        self._started = 0  # steps
        self._in_structure = 0  # calls of which the names alone are written
        self._has_told_end_of_values = False
        self.remarks: list[str] = []  # for the closing line

    @property
    def is_over(self) -> bool:
        """True where nothing more can or shall be written."""
        return self._failure is not None or (self._differing is not None and self._differing.is_done)

    def store(self, step: int, tensor: SharedTensor) -> None:
        """Hand over a tensor while the step goes on, so that memory does not grow with the step."""
        try:
            self._begin(step)
            self._writer.store(tensor)
            self._tell_end_of_values()
        except ParityError as error:
            self._fail(error)

    def write(
        self, step: int, done: PendingStep, missing: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Hand a step over; when the disk refuses, say so and write no more.

        `environment` is what held in this step, None where that is what held when the output was opened.
        """
        if self._failure is not None or (not done.construct and self._begun is None):
            return  # nothing ran between start and here
        try:
            self._begin(step)
            self._begun = None
            stacks, construct = (done.stacks, done.construct) if self._has_extra else (None, None)
            if self._has_values:
                self._add_with_values(step, done)
            elif self._task == "structure":
                self._in_structure += sum(draft.direction == "forward" for draft in done.drafts)
            else:
                # First: the device may still be measuring what the records show.
                self._writer.describe_step(stacks=stacks, construct=construct)
                self._writer.add_later([draft.name for draft in done.drafts], done.encoded)
            self._writer.finish_step(
                stacks=stacks,
                construct=construct,
                missing=[*missing, *self._refused],
                environment=environment,
                origins=done.origins,
            )
            self._tell_end_of_values()
        except ParityError as error:
            self._fail(error)

    def _add_with_values(self, step: int, done: PendingStep) -> None:
        records = done.records()
        if self._differing is not None:
            records = self._differing.of_step(step, records)
        selected = [(record, self._selected(record, values)) for record, values in records]
        self._refused += map(str, self._writer.add_all(selected))  # for example two items of one name

    def _selected(self, record: Record, values: dict[str, SharedTensor]) -> dict[str, SharedTensor]:
        """Return the values of a record's items, or none where its values were not asked for."""
        return values if self._task in _WITH_VALUES or self._selection.stores(record.name) else {}

    def _begin(self, step: int) -> None:
        if self._begun == step:
            return
        if self._begun is not None:
            # Its records were lost by a fault of torchparity, after some of its tensors were stored.
            self._writer.finish_step(missing=[f"step {self._begun} could not be recorded."])
        self._writer.start_step(step)
        self._begun = step
        self._started += 1

    def _fail(self, error: ParityError) -> None:
        self._failure = error
        _log.error("torchparity stops recording, training goes on: %s", error)

    def _tell_end_of_values(self) -> None:
        reason = self._writer.values_end
        if reason is not None and not self._has_told_end_of_values:
            self._has_told_end_of_values = True
            _log.warning("torchparity: the run is incomplete, without values of further tensors: %s.", reason)

    def take_back(self, step: int | None = None) -> None:
        """Do nothing: a step in hand has no records yet, and a run that begins anew replaces the one before."""

    def close(self, missing: Iterable[str]) -> None:
        """Wait for the writer and print the closing line."""
        try:
            self._writer.close()
        except ParityError as error:
            if self._failure is None:
                _log.error("torchparity: the run at %s is incomplete: %s", self._writer.path, error)
            self._failure = error
        self._tell_end_of_values()
        reports = self._writer.reports
        removed = [step for step, report in reports.items() if not report.is_on_disk()]
        on_disk = [report for step, report in reports.items() if step not in removed]
        records = self._in_structure if self._task == "structure" else sum(report.records for report in on_disk)
        left_out = [*self._unwritten(removed), *missing, *self._refused, *self._without_values(on_disk)]
        left_out += [sentence for report in on_disk for sentence in report.left_out]
        line = closing_line(
            self._writer.path,
            records=records,
            steps=len(on_disk),
            size=sum(report.bytes for report in on_disk),
            task=self._task,
            left_out=list(dict.fromkeys(left_out)),
            never_seen=self._selection.unmatched(),
            remarks=[
                *self.remarks,
                *self._selection.remarks(),
                *(self._differing.sentences() if self._differing else ()),
            ],
        )
        _log.info("%s", line)
        with suppress(OSError, ValueError):  # nobody reads it, or the terminal has no such letter
            print(line)  # noqa: T201 - the one line at the end

    def _unwritten(self, removed: Sequence[int]) -> list[str]:
        """Return sentences about steps that are not on disk: not finished, or removed since."""
        sentences = []
        if self._failure is not None:
            unfinished = self._started - len(self._writer.reports)
            steps = f"{counted(unfinished, 'step')} not finished: " if unfinished else ""
            sentences.append(f"{steps}{self._failure}")
        if removed:
            numbers = ", ".join(map(str, removed[:5])) + (", ..." if len(removed) > 5 else "")
            were = f"step {numbers} was" if len(removed) == 1 else f"steps {numbers} were"
            sentences.append(f"{were} removed after being written.")
        if not self._writer.path.is_dir():
            sentences.append(f"the folder {self._writer.path} is gone.")
        return sentences

    def _without_values(self, reports: Sequence[StepReport]) -> list[str]:
        valueless = sum(report.valueless for report in reports)
        if not valueless:
            return []
        return [f"the values of {counted(valueless, 'tensor')} were left out: {self._writer.values_end}."]
