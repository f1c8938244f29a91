"""The ways in: `PrecisionDebugger`, as the seeds have it, and `capture`, for new code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from torchparity.capture._session import Models, Session
from torchparity.config import CaptureConfig, capture_config, read_settings
from torchparity.errors import ConfigError


class PrecisionDebugger:
    """Records a training as config.json says; one per process.

    `start`, `stop`, `step` and `save` work on the object and on the class. A second
    construction with the same arguments returns the first object; with others it raises.
    """

    _instance: ClassVar[PrecisionDebugger | None] = None
    _session: Session
    _settings: dict[str, Any]

    def __new__(
        cls,
        config_path: str | Path | None = None,
        task: str | None = None,
        dump_path: str | Path | None = None,
        level: str | None = None,
        step: Sequence[int] | str | int | None = None,
        **fields: Any,
    ) -> PrecisionDebugger:
        arguments = {"task": task, "dump_path": dump_path and str(dump_path), "level": level, "step": step}
        settings = dict(read_settings(Path(config_path))) if config_path is not None else {}
        settings |= {key: value for key, value in arguments.items() if value is not None} | fields
        if cls._instance is not None:
            if cls._instance._settings == settings:
                return cls._instance
            raise ConfigError("this process has a PrecisionDebugger with other settings; there is one per process.")
        instance = super().__new__(cls)
        instance._settings = settings
        instance._session = Session(capture_config(settings, source=str(config_path or "PrecisionDebugger")))
        cls._instance = instance
        return instance

    @classmethod
    def start(cls, model: Models | None = None, token_range: Any = None, rank_id: int | None = None) -> None:
        """Begin to record; `model` is needed for levels L0 and mix."""
        if token_range is not None:
            raise ConfigError("token_range is not supported; start and stop around the tokens that matter.")
        cls._current("start").start(model, rank_id)

    @classmethod
    def stop(cls) -> None:
        """Stop recording calls; gradients of what was recorded arrive until `step`."""
        cls._current("stop").stop()

    @classmethod
    def step(cls) -> None:
        """End a step: write it and count on."""
        cls._current("step").step()

    @classmethod
    def save(cls, variable: Any, name: str, save_backward: bool = True) -> None:
        """Record one value by hand, with its gradient where it has one."""
        cls._current("save").save(variable, name, save_backward)

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
    def _current(cls, asked: str) -> Session:
        if cls._instance is None:
            raise ConfigError(f"{asked}() needs a PrecisionDebugger; make one first.")
        return cls._instance._session


class Capture:
    """A recording under way, as `with capture(...)` gives it."""

    def __init__(self, session: Session, model: Models | None) -> None:
        self._session, self._model = session, model

    def step(self) -> None:
        """End a step and begin the next."""
        self._session.step()
        self._session.start(self._model)

    def save(self, variable: Any, name: str) -> None:
        """Record one value by hand, with its gradient where it has one."""
        self._session.save(variable, name)


@contextmanager
def capture(
    path: str | Path,
    *,
    model: Models | None = None,
    level: str | None = None,
    task: str = "statistics",
    settings: Mapping[str, Any] | None = None,
) -> Iterator[Capture]:
    """Record what runs inside the block into a run at `path`.

    Without `level` modules and APIs are recorded when a model is given, APIs alone when
    not. `settings` are further fields of config.json.
    """
    fields: dict[str, Any] = {
        "dump_path": str(path),
        "task": task,
        "level": level or ("mix" if model is not None else "L1"),
    }
    config: CaptureConfig = capture_config({**fields, **(settings or {})}, source="capture")
    session = Session(config)
    session.start(model)
    try:
        yield Capture(session, model)
    finally:
        session.close()
