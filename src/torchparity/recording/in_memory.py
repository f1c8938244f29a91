"""Recording steps of one model into memory, for a comparison that keeps nothing on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from torch import nn

from torchparity.config import CaptureConfig, RecordingLevel, RecordingTask
from torchparity.errors import InternalError
from torchparity.recording.process import rank_of_process
from torchparity.recording.session import Session
from torchparity.recording.writing.memory_output import MemoryOutput
from torchparity.storage import MemoryPart


class MemoryRecording:
    """Records a model, a step at a time; leaving its `with` block removes every hook, whatever happened inside."""

    def __init__(self, model: nn.Module, *, level: RecordingLevel, task: RecordingTask) -> None:
        self._model = model
        self._output = MemoryOutput(task=task, level=level, rank=rank_of_process())
        self._session = Session(CaptureConfig(task=task, level=level), output=self._output)

    def __enter__(self) -> MemoryRecording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close(error)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Record what runs inside the block as one step."""
        self._session.start(self._model)
        try:
            yield
        except BaseException as error:
            self._session.close(error)
            raise
        self._session.step()

    def take(self) -> MemoryPart:
        """Hand over the step that ended last."""
        part = self._output.take()
        if part is None:
            raise InternalError("the step could not be recorded; the log says why.")
        return part
