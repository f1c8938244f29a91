"""Calls that draw random numbers: listed in a file, or made to draw the same numbers every time.

Whether a call draws is read from the generators, not from its name: dropout in evaluation does not,
a user's own operator may.
"""

from __future__ import annotations

import csv
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchparity.calls.guard.boundary import Boundary
from torchparity.calls.guard.mode_stack import modes_of, put_below, take_off
from torchparity.devices import all_devices
from torchparity.errors import RunWriteError
from torchparity.ops.catalog import record_name_of
from torchparity.recording.step.call_stacks import StackBook

_ATTRIBUTES = frozenset({"__get__", "__set__", "__delete__"})


class _Drawing(TorchFunctionMode, ABC):
    """Sees the calls that can draw; not those of other threads, nor what is compiled."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
            return func(*args, **kwargs)
        if getattr(func, "__name__", "") in _ATTRIBUTES or _is_graph_being_captured():
            return func(*args, **kwargs)
        given = [value for value in chain(args, kwargs.values()) if isinstance(value, torch.Generator)]
        return self.draw(lambda: func(*args, **kwargs), func, given)

    @abstractmethod
    def draw(self, call: Callable[[], Any], func: Callable[..., Any], given: list[torch.Generator]) -> Any:
        """Make the call; `given` are generators among its arguments, beside those it may use anyway."""


class Restarting(_Drawing):
    """Lets every call draw from the beginning, so that one that draws more on one side does not shift the others."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed, self._boundary = seed, Boundary()

    def draw(self, call: Callable[[], Any], func: Callable[..., Any], given: list[torch.Generator]) -> Any:
        self._boundary.run("seed_all", self._restart, given)
        return call()

    def _restart(self, given: list[torch.Generator]) -> None:
        for generator in _default_generators():
            generator.manual_seed(self._seed)
        for generator in given:
            generator.manual_seed(generator.initial_seed())

    @classmethod
    def end_all(cls) -> None:
        """Take those of an earlier time off this thread."""
        for mode in modes_of(cls):
            take_off(mode)


class RandomCalls(_Drawing):
    """Lists the calls that draw in a csv file, a line as each returns, until `stop` or the end of the process."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._boundary, self._stacks = Boundary(), StackBook()
        self._lock, self._counts = threading.Lock(), Counter[str]()
        with path.open("x", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(["api_name", "stack"])

    def __enter__(self) -> RandomCalls:
        return self  # it is on since it was made

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """List no more calls."""
        take_off(self)

    def draw(self, call: Callable[[], Any], func: Callable[..., Any], given: list[torch.Generator]) -> Any:
        generators = [*_default_generators(), *given]
        before = self._boundary.run("random_save", _states, generators)
        try:
            return call()
        finally:  # one that raises may have drawn
            self._boundary.run("random_save", self._note, func, generators, before, sys._getframe(2))

    def _note(
        self, func: Callable[..., Any], generators: list[torch.Generator], before: list[bytes] | None, frame: FrameType
    ) -> None:
        if before is None or _states(generators) == before:
            return
        with self._lock, self.path.open("a", newline="", encoding="utf-8", errors="backslashreplace") as file:
            name = record_name_of(func)
            number = self._counts[name]
            self._counts[name] += 1
            csv.writer(file).writerow([f"{name}.{number}", "\n".join(self._stacks.frames_of(frame))])


def random_save(output_path: str | Path = "./output") -> RandomCalls:
    """List every call of torch that draws random numbers from now on in `{output_path}/random_….csv`, with its stack.

    Only calls of this thread, and none inside of compiled functions, which are compiled once more for it.
    Returns what lists them: `path` is the file, `stop()` ends it, and so does leaving a `with` block.
    """
    folder = Path(output_path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        calls = _listing_in(folder)
    except OSError as error:
        raise RunWriteError(error.filename or folder, (error.strerror or str(error)).lower()) from None
    put_below(calls)
    return calls


def _listing_in(folder: Path) -> RandomCalls:
    """Return a listing into a file of its own; another may have begun in the same second."""
    name = f"random_{_process()}_{time.strftime('%Y%m%d%H%M%S')}"
    number = 0
    while True:
        with suppress(FileExistsError):
            return RandomCalls(folder / f"{name}{f'_{number}' if number else ''}.csv")
        number += 1


def _process() -> str:
    distributed = torch.distributed
    is_parallel = distributed.is_available() and distributed.is_initialized()
    return f"rank{distributed.get_rank()}" if is_parallel else f"proc{os.getpid()}"


def _states(generators: list[torch.Generator]) -> list[bytes]:
    return [generator.get_state().numpy().tobytes() for generator in generators]


def _default_generators() -> list[torch.Generator]:
    """Return the generators of the host and of every device that is in use."""
    return [generator for device in all_devices() for generator in device.generators()]


def _is_graph_being_captured() -> bool:
    return any(device.is_capturing_graph() for device in all_devices())
