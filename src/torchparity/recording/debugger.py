"""The public ways to record: `capture` for new code, and `PrecisionDebugger` as msprobe and ptdbg_ascend have it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

from torchparity.config import (
    CaptureConfig,
    CaptureFields,
    DebuggerFields,
    IndexRange,
    RecordingLevel,
    RecordingTask,
    capture_config,
    read_settings,
    with_keywords,
)
from torchparity.errors import ConfigError
from torchparity.recording.session import Session
from torchparity.recording.setup import Models

if TYPE_CHECKING:
    from typing_extensions import Unpack


class PrecisionDebugger:
    """Records a training as config.json says; there is one per process.

    Every field of config.json, and of the block of its task, is a keyword argument too; an
    argument wins over the file. All methods work on the object and on the class. A second
    construction with the same arguments, or with none, returns the first object; with others it raises.
    """

    _instance: ClassVar[PrecisionDebugger | None] = None
    _session: Session
    _settings: dict[str, Any]

    def __new__(
        cls,
        config_path: str | Path | None = None,
        task: RecordingTask | None = None,
        dump_path: str | Path | None = None,
        level: RecordingLevel | None = None,
        step: IndexRange = None,
        **fields: Unpack[DebuggerFields],
    ) -> PrecisionDebugger:
        """Read and check the settings; nothing is recorded before `start`."""
        folder = dump_path and _path(dump_path)
        arguments = {"task": task, "dump_path": folder, "level": level, "step": step}
        given: dict[str, object] = {key: value for key, value in arguments.items() if value is not None}
        if cls._instance is not None and config_path is None and not given and not fields:
            return cls._instance
        source = str(config_path or "PrecisionDebugger")
        file_fields = read_settings(Path(_path(config_path))) if config_path is not None else {}
        settings = with_keywords(file_fields, {**given, **fields}, source="PrecisionDebugger")
        if cls._instance is not None:
            if cls._instance._settings == settings:
                return cls._instance
            raise ConfigError(
                "this process has a PrecisionDebugger with other settings; there is one at a time: close() ends it."
            )
        instance = super().__new__(cls)
        instance._settings = settings
        config = capture_config(settings, source=source)
        file = None if config_path is None or "dump_enable" in fields else Path(config_path).absolute()
        instance._session = Session(config, config_path=file)
        cls._instance = instance
        return instance

    @classmethod
    def start(
        cls, model: Models | None = None, token_range: Sequence[int] | None = None, rank_id: int | None = None
    ) -> None:
        """Begin to record; `model` is needed for levels L0 and mix.

        `token_range=[first, last]` records those calls of the model, counted from 0, and what is done between them.
        """
        cls._current("start").start(model, rank_id, token_range)

    @classmethod
    def stop(cls) -> None:
        """Stop recording calls; gradients of what was recorded are still recorded until `step`."""
        cls._current("stop").stop()

    @classmethod
    def step(cls) -> None:
        """End the step: write it, and count up."""
        cls._current("step").step()

    @classmethod
    def save(cls, variable: object, name: str, save_backward: bool = True) -> None:
        """Record one value under a name, with its gradient where it has one."""
        cls._current("save").save(variable, name, save_backward)

    @classmethod
    def module_dump(cls, module: nn.Module, name: str) -> None:
        """Record the calls of `module` as `Module.{name}.{class}` and nothing else, until `module_dump_end`."""
        cls._current("module_dump").module_dump(module, name)

    @classmethod
    def module_dump_end(cls) -> None:
        """Record everything again."""
        cls._current("module_dump_end").module_dump_end()

    @classmethod
    def register_custom_api(cls, module: object, api: str, api_prefix: str | None = None) -> None:
        """Record each call of `module.api` as one API, `{api_prefix}.{api}`; without a prefix by the module's name.

        The function is replaced between start and stop only. Code that imported it by name
        before start calls the original, which is not recorded.
        """
        cls._current("register_custom_api").register_custom_api(module, api, api_prefix)

    @classmethod
    def restore_custom_api(cls, module: object, api: str) -> None:
        """Stop recording `module.api`."""
        cls._current("restore_custom_api").restore_custom_api(module, api)

    @classmethod
    def set_init_step(cls, step: int) -> None:
        """Number the first step `step`, for a training that was resumed."""
        cls._current("set_init_step").set_init_step(step)

    @classmethod
    def close(cls) -> None:
        """End the recording; another PrecisionDebugger may be made afterwards."""
        if cls._instance is not None:
            cls._instance._session.close()
            cls._instance = None

    @classmethod
    def _current(cls, method: str) -> Session:
        if cls._instance is None:
            raise ConfigError(f"{method}() needs a PrecisionDebugger; make one first.")
        return cls._instance._session


def _path(given: object) -> str:
    """Return a path as text; refuse what would become a folder called None or 5."""
    if not isinstance(given, (str, os.PathLike)):
        raise ConfigError(f"the folder to write to is {given!r}; give it as text or as a Path.")
    return str(given)


class Capture:
    """A recording in progress, as `with capture(...)` gives it."""

    def __init__(self, session: Session, model: Models | None, token_range: Sequence[int] | None) -> None:
        self._session, self._model, self._token_range = session, model, token_range

    def step(self) -> None:
        """End the step and begin the next."""
        self._session.step()
        self._session.start(self._model, token_range=self._token_range)

    def stop(self) -> None:
        """Leave out what comes, until `start`; gradients of what was recorded still arrive until `step`."""
        self._session.stop()

    def start(self) -> None:
        """Go on after `stop`."""
        self._session.start(self._model, token_range=self._token_range)

    def save(self, variable: object, name: str) -> None:
        """Record one value under a name, with its gradient where it has one."""
        self._session.save(variable, name)

    def module_dump(self, module: nn.Module, name: str) -> None:
        """Record the calls of `module` and nothing else, until `module_dump_end`."""
        self._session.module_dump(module, name)

    def module_dump_end(self) -> None:
        """Record everything again."""
        self._session.module_dump_end()


def capture(
    path: str | Path,
    *,
    model: Models | None = None,
    level: RecordingLevel | None = None,
    task: RecordingTask = "statistics",
    token_range: Sequence[int] | None = None,
    settings: Mapping[str, object] | None = None,
    **fields: Unpack[CaptureFields],
) -> AbstractContextManager[Capture]:
    """Record what runs inside the block into a run at `path`.

    Without `level`, modules and APIs are recorded when a model is given, APIs alone when
    not. `token_range=[first, last]` records that range of the model's calls. `fields`
    are further fields of config.json or of the task's block, such as `list=["relu"]`
    (docs/config.md has them all); `settings` has the same as a mapping.
    """
    if "dump_path" in fields or "dump_path" in (settings or {}):
        raise ConfigError("capture's first argument is the folder to write to; leave dump_path out.")
    given = {"dump_path": _path(path), "task": task, "level": level or ("mix" if model is not None else "L1")}
    merged = with_keywords({**given, **(settings or {})}, fields, source="capture")
    return _recording(capture_config(merged, source="capture"), model, token_range)


@contextmanager
def _recording(config: CaptureConfig, model: Models | None, token_range: Sequence[int] | None) -> Iterator[Capture]:
    session = Session(config)
    session.start(model, token_range=token_range)
    try:
        yield Capture(session, model, token_range)
    except BaseException as error:
        session.close(error)
        raise
    session.close()
