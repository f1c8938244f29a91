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
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchparity.capture._apis import record_name_of
from torchparity.capture._boundary import Boundary
from torchparity.capture._mode_stack import modes_of, put_back, take_off
from torchparity.capture._stacks import StackBook
from torchparity.errors import RunWriteError

_ATTRIBUTES = frozenset({"__get__", "__set__", "__delete__"})


class _Drawing(TorchFunctionMode):
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

    def draw(self, call: Callable[[], Any], func: Callable[..., Any], given: list[torch.Generator]) -> Any:
        """Make the call; `given` are generators among its arguments, beside those it may use anyway."""
        raise NotImplementedError


class Restarting(_Drawing):
    """Lets every call draw from the beginning, so that one that draws more on one side does not shift the others."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed

    def draw(self, call: Callable[[], Any], func: Callable[..., Any], given: list[torch.Generator]) -> Any:
        for generator in _default_generators():
            generator.manual_seed(self._seed)
        for generator in given:
            generator.manual_seed(generator.initial_seed())
        return call()

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
        self._write(["api_name", "stack"])

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
        before = [generator.get_state() for generator in generators]
        output = call()
        if any(
            not torch.equal(generator.get_state(), state) for generator, state in zip(generators, before, strict=True)
        ):
            self._boundary.run("random_save", self._note, func, sys._getframe(2))
        return output

    def _note(self, func: Callable[..., Any], frame: FrameType) -> None:
        with self._lock:
            name = record_name_of(func)
            number = self._counts[name]
            self._counts[name] += 1
            self._write([f"{name}.{number}", "\n".join(self._stacks.frames_of(frame))])

    def _write(self, row: list[str]) -> None:
        with self.path.open("a", newline="", encoding="utf-8", errors="backslashreplace") as file:
            csv.writer(file).writerow(row)


def random_save(output_path: str | Path = "./output") -> RandomCalls:
    """List every call that draws random numbers from now on in `{output_path}/random_….csv`, each with its stack.

    Returns what lists them: `path` is the file, `stop()` ends it, and so does leaving a `with` block.
    """
    folder, moment = Path(output_path), time.strftime("%Y%m%d%H%M%S")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        calls = RandomCalls(folder / f"random_{_process()}_{moment}.csv")
    except OSError as error:
        raise RunWriteError(error.filename or folder, (error.strerror or str(error)).lower()) from None
    put_back(calls, 0)  # below the modes of others, who take off the uppermost when they end
    return calls


def _process() -> str:
    distributed = torch.distributed
    is_parallel = distributed.is_available() and distributed.is_initialized()
    return f"rank{distributed.get_rank()}" if is_parallel else f"proc{os.getpid()}"


def _default_generators() -> list[torch.Generator]:
    """Return the generators of the host and of every device that is in use."""
    devices: list[Any] = [torch.cuda, getattr(torch, "npu", None)]
    in_use = [device for device in devices if device is not None and device.is_initialized()]
    return [torch.default_generator, *(generator for device in in_use for generator in device.default_generators)]


def _is_graph_being_captured() -> bool:
    device: Any = torch.cuda
    return bool(device.is_initialized() and device.is_current_stream_capturing())
