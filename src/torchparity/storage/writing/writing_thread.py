"""The thread that writes a run: it takes tasks from a bounded queue and owns the files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from torchparity.errors import InternalError, ParityError, RunWriteError
from torchparity.records import Record, RunInfo, StackGroup
from torchparity.storage.encoding.encode import EncodedStep
from torchparity.storage.encoding.origins import OriginTable
from torchparity.storage.formats import TensorFormat
from torchparity.storage.writing.bounded_queue import ByteBoundedQueue
from torchparity.storage.writing.shared_tensor import SharedTensor
from torchparity.storage.writing.space_limit import SpaceLimit
from torchparity.storage.writing.step_report import StepReport
from torchparity.storage.writing.step_writer import StepWriter
from torchparity.whole_file import reason_of

Encoding = Callable[[], tuple[EncodedStep, Iterable[str]]]  # with sentences about what it left out
Entry = tuple[Record, dict[str, SharedTensor]]


@dataclass(frozen=True)
class Start:
    step: int
    folder: Path


@dataclass(frozen=True)
class Store:
    tensor: SharedTensor
    crc32: Future[int] | None


@dataclass(frozen=True)
class Add:
    entries: list[Entry]


@dataclass(frozen=True)
class Encode:
    work: Encoding


@dataclass(frozen=True)
class Describe:
    stacks: Iterable[StackGroup] | None
    construct: Mapping[str, str | None] | None


@dataclass(frozen=True)
class Finish:
    missing: Iterable[str]
    environment: Mapping[str, str] | None = None  # None: that of the start
    origins: OriginTable | None = None


@dataclass(frozen=True)
class Close:
    pass


Task = Start | Store | Add | Encode | Describe | Finish | Close


class WritingThread:
    """Carries out tasks in their order until `Close`, the end of the program or the first failure.

    `failure` is what went wrong, if anything did; `reports` has each finished step by its number.
    """

    def __init__(
        self,
        path: Path,
        info: RunInfo,
        tensor_format: TensorFormat,
        space: SpaceLimit,
        *,
        skip_unwritable: bool,
        queue_bytes: int,
    ) -> None:
        self._path, self._info, self._format, self._space = path, info, tensor_format, space
        self._skip_unwritable = skip_unwritable
        self._queue: ByteBoundedQueue[Task] = ByteBoundedQueue(queue_bytes)
        self.failure: ParityError | None = None
        self.reports: dict[int, StepReport] = {}
        self._step: StepWriter | None = None
        self._number = 0
        self._thread = threading.Thread(target=self._run, name="torchparity-writer")
        self._thread.start()

    def put(self, task: Task, nbytes: int) -> None:
        """Hand over a task that holds so many bytes; waits while the queue is full."""
        self._queue.put(task, nbytes)

    def is_idle(self) -> bool:
        """Tell whether no task waits."""
        return self._queue.is_empty()

    def finish(self) -> None:
        """Wait until every task is carried out."""
        if self._thread.is_alive():
            self._queue.put(Close(), 0)
            self._thread.join()

    def _run(self) -> None:
        is_finished = False
        try:
            while not isinstance(task := self._queue.get(at_exit=Close()), Close):
                self._carry_out(task)
            if self._step is not None:
                self._step.suspend()
            is_finished = True
        except ParityError as error:
            self.failure = error
        except OSError as error:
            self.failure = RunWriteError(error.filename or self._path, reason_of(error))
        finally:
            # Whatever happened, nobody may wait for this thread, and nobody may take silence for success.
            if not is_finished:
                self.failure = self.failure or InternalError("the writer's thread failed; its traceback is above.")
                self._queue.close()
                if self._step is not None:
                    self._step.abandon()

    def _carry_out(self, task: Start | Store | Add | Encode | Describe | Finish) -> None:
        if isinstance(task, Start):
            self._step = StepWriter(task.folder, self._info, self._format, self._space)
            self._number = task.step
            return
        step = self._step
        if step is None:
            raise InternalError("a record reached the writer outside a step.")
        if isinstance(task, Store):
            step.store("", task.tensor, task.crc32)
        elif isinstance(task, Describe):
            step.describe(task.stacks, task.construct)
        elif isinstance(task, Finish):
            report = self.reports[self._number] = step.finish(task.missing, task.environment, task.origins)
            self._space.finished_bytes += report.bytes
            self._step = None
        else:
            if isinstance(task, Add):
                for record, tensors in task.entries:
                    step.add(record, tensors, skip=self._skip_unwritable)
            else:
                encoded, left_out = task.work()
                step.add_step(encoded)
                step.leave_out(left_out)
            if self._queue.is_empty():
                step.flush()
