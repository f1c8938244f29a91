"""Writing a run: arguments are checked in the calling thread, files are written by another thread."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import get_args

from torchparity.config import Level, Task
from torchparity.errors import ConfigError, ParityError, RunExistsError, RunWriteError
from torchparity.records import Record, RunInfo, StackGroup
from torchparity.storage.encoding.origins import OriginTable
from torchparity.storage.formats import load_format
from torchparity.storage.reading.layout import has_records, remove_part
from torchparity.storage.writing.checksums_ahead import ChecksumPool
from torchparity.storage.writing.refusals import check_choice, check_number, checked
from torchparity.storage.writing.shared_tensor import SharedTensor
from torchparity.storage.writing.space_limit import DiskUsage, SpaceLimit
from torchparity.storage.writing.step_report import StepReport
from torchparity.storage.writing.writing_thread import (
    Add,
    Describe,
    Encode,
    Encoding,
    Entry,
    Finish,
    Start,
    Store,
    WritingThread,
)
from torchparity.tensors import HostTensor
from torchparity.whole_file import reason_of

QUEUE_BYTES = 64 << 20
_NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})
_RECORD_BYTES = 4096  # the size of a record without tensors, for the queue


class RunWriter:
    """Writes the steps of one rank below `path`.

    Tensors handed to `add` are written later by another thread: the caller must not
    change them. A record that holds something no file can hold fails the run, or with
    `skip_unwritable` is left out and named to every reader. When the disk refuses, the
    next call raises `RunWriteError`; finished steps stay readable.

    With `max_bytes`, and with `disk_usage` (`shutil.disk_usage`) before the disk is full, the values of
    further tensors are left out while records are still written; `values_end` then says why.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        task: str = "statistics",
        level: str = "L1",
        rank: int = 0,
        tensor_format: str = "safetensors",
        overwrite: bool = False,
        converted_from: str | None = None,
        environment: Mapping[str, str] = _NO_ENVIRONMENT,
        has_every_call: bool = False,
        skip_unwritable: bool = False,
        queue_bytes: int = QUEUE_BYTES,
        max_bytes: int | None = None,
        disk_usage: DiskUsage | None = None,
    ) -> None:
        check_choice("task", task, get_args(Task))
        check_choice("level", level, get_args(Level))
        check_number("rank", rank)
        self._given, self._root, self.rank = Path(path), Path(path).absolute(), rank
        tensors = load_format(tensor_format)
        tensors.prepare_to_write()
        self._make_room(overwrite)
        self._space = SpaceLimit(self._root, max_bytes, disk_usage)
        self._step: int | None = None
        self._is_described = False
        self._steps: set[int] = set()
        self._names: set[str] = set()
        self._closed = False
        self._checksums = ChecksumPool()
        self._thread = WritingThread(
            self._root,
            RunInfo(
                task=task,
                level=level,
                tool=converted_from,
                run_id=uuid.uuid4().hex,
                environment=dict(environment),
                has_every_call=has_every_call,
            ),
            tensors,
            self._space,
            skip_unwritable=skip_unwritable,
            queue_bytes=queue_bytes,
        )

    @property
    def path(self) -> Path:
        """The folder of the run: as it was given, or absolute after a change of the working directory."""
        return self._given if self._given.absolute() == self._root else self._root

    @property
    def reports(self) -> dict[int, StepReport]:
        """The report on each finished step."""
        return self._thread.reports

    @property
    def values_end(self) -> str | None:
        """Why no more values of tensors are written; None as long as they are."""
        return self._space.reason

    def space_warning(self) -> str | None:
        """Return a sentence where the disk has clearly little space for tensors; None where it has enough."""
        return self._space.warning()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            with suppress(ParityError):  # the caller's own exception says more
                self.close()
            return
        if self._step is not None:
            self.finish_step()
        self.close()

    def start_step(self, step: int) -> None:
        """Begin a step; the one before must be finished."""
        self._refuse_if_closed()
        if self._step is not None:
            raise ConfigError(f"step {step} was started before step {self._step} was finished.")
        check_number("step", step)
        if step in self._steps:
            raise ConfigError(f"step {step} was written already; each step is written once.")
        folder = self._root / f"step{step}" / f"rank{self.rank}"
        if has_records(folder):
            raise RunExistsError(folder)
        self._steps.add(step)
        self._step, self._names, self._is_described = step, set(), False
        self._thread.put(Start(step, folder), 0)

    def add(self, record: Record, tensors: Mapping[str, HostTensor | SharedTensor] | None = None) -> None:
        """Hand over a record and the values of its items, by item name (`input.0`); waits while the queue is full.

        An item whose values are given gets its data_name and place. A `SharedTensor` may be given
        for several items of a step.
        """
        self._refuse_if_closed()
        entry = self._entry(record, tensors or {})
        self._thread.put(Add([entry]), _RECORD_BYTES + sum(tensor.queue_bytes() for tensor in entry[1].values()))

    def add_all(self, records: Iterable[tuple[Record, Mapping[str, HostTensor | SharedTensor]]]) -> list[ConfigError]:
        """Hand over many records at once, which costs a training less; return the errors of those that were refused."""
        self._refuse_if_closed()
        entries, refused = [], []
        for record, tensors in records:
            try:
                entries.append(self._entry(record, tensors))
            except ConfigError as error:
                refused.append(error)
        held = sum(tensor.queue_bytes() for _, tensors in entries for tensor in tensors.values())
        self._thread.put(Add(entries), held + _RECORD_BYTES * len(entries))
        return refused

    def add_later(self, names: Sequence[str], work: Encoding) -> None:
        """Let the writer's thread encode the records of these names."""
        self._refuse_if_closed()
        if self._step is None:
            raise ConfigError("records were handed over outside a step; call start_step first.")
        unique = set(names)
        if len(unique) < len(names) or not self._names.isdisjoint(unique):
            raise ConfigError(f"step {self._step} has two records of one name; names must be unique in a step.")
        self._names |= unique
        self._thread.put(Encode(work), _RECORD_BYTES * len(names))

    def store(self, tensor: SharedTensor) -> None:
        """Hand over the values of a tensor ahead of the records that show it; waits while the queue is full.

        For formats that keep tensors apart from their names: memory does not grow with the step.
        """
        self._refuse_if_closed()
        if self._step is None:
            raise ConfigError("a tensor was handed over outside a step; call start_step first.")
        if self._space.reason is not None:
            tensor.leave_out()
        else:
            self._thread.put(Store(tensor, self._checksums.crc32(tensor)), tensor.queue_bytes())

    def describe_step(self, *, stacks: Iterable[StackGroup] | None, construct: Mapping[str, str | None] | None) -> None:
        """Hand over where the calls of the step came from and what they are inside of; no file for what is None."""
        self._refuse_if_closed()
        if self._step is None:
            raise ConfigError("there is no step to describe; call start_step first.")
        groups = None if stacks is None else list(stacks)
        parents = None if construct is None else dict(construct)
        self._is_described = True
        self._thread.put(Describe(groups, parents), _RECORD_BYTES)

    def finish_step(
        self,
        *,
        stacks: Iterable[StackGroup] | None = (),
        construct: Mapping[str, str | None] | None = MappingProxyType({}),
        missing: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        origins: OriginTable | None = None,
    ) -> None:
        """End the step: everything handed over is written and dump.json appears. Does not wait for that.

        `stacks` and `construct` are those of `describe_step`, unless that was called for this step.
        `environment` is what held in this step, where that is not what the writer was opened with.
        `missing` are sentences about what the step lacks; every reader of the run repeats them.
        `origins` are what the numbers in its leaves stand for; nobody may change them from here on but
        the encoding handed over before.
        """
        self._refuse_if_closed()
        if self._step is None:
            raise ConfigError("there is no step to finish; call start_step first.")
        if not self._is_described:
            self.describe_step(stacks=stacks, construct=construct)
        self._step = None
        held = None if environment is None else dict(environment)
        self._thread.put(Finish(list(missing), held, origins), _RECORD_BYTES)

    def close(self) -> dict[int, StepReport]:
        """Wait until everything is on disk; raise the failure of the writer, if any.

        Returns the reports of the finished steps; an unfinished step stays a journal.
        """
        self._closed = True
        self._thread.finish()
        self._checksums.close()
        self._raise_failure()
        return self.reports

    def _entry(self, record: Record, tensors: Mapping[str, HostTensor | SharedTensor]) -> Entry:
        if self._step is None:
            raise ConfigError(f"record {record.name} was added outside a step; call start_step first.")
        if record.name in self._names or not record.name:
            raise ConfigError(
                f"step {self._step} already has a record {record.name!r}; names must be unique in a step."
            )
        held = checked(record, tensors) if tensors else {}
        self._names.add(record.name)
        return record, held

    def _refuse_if_closed(self) -> None:
        self._raise_failure()
        if self._closed:
            raise ConfigError(f"the writer of {self.path} is closed; open another one to write more steps.")

    def _raise_failure(self) -> None:
        if self._thread.failure is not None:
            raise self._thread.failure

    def _make_room(self, overwrite: bool) -> None:
        """Create the run folder; refuse this rank's earlier steps, or remove them when asked to."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            old = [folder for folder in self._root.glob(f"step*/rank{self.rank}") if has_records(folder)]
            if old and not overwrite:
                raise RunExistsError(self.path)
            for folder in old:
                remove_part(folder, self._root)
            if not os.access(self._root, os.W_OK | os.X_OK):
                raise RunWriteError(self.path, "permission denied")
        except OSError as error:
            raise RunWriteError(error.filename or self.path, reason_of(error)) from None
        except ValueError as error:  # a letter that no path can have here
            raise RunWriteError(ascii(str(self._given)), str(error)) from None
