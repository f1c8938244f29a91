"""Recording steps into memory, for who keeps nothing on disk or writes another kind of file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from torch import nn

from torchparity.config import CaptureConfig, RecordingLevel, RecordingTask
from torchparity.errors import InternalError
from torchparity.recording.process import rank_of_process
from torchparity.recording.session import Session
from torchparity.recording.writing.memory_output import HandingOutput, MemoryOutput
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


def handing_session(
    config: CaptureConfig,
    *,
    take: Callable[[MemoryPart], None],
    end: Callable[[Sequence[str]], None],
    ending: Callable[[int], Exception],
) -> Session:
    """Return a session that hands each step to `take` instead of writing it, and to `end` what it lacks in the end.

    With `enable_dataloader` the training ends with `ending(step)` after the last step that is asked for.
    """
    output = HandingOutput(task=config.task, level=config.level, rank=rank_of_process(), take=take, end=end)
    return Session(config, output=output, ending=ending)
