"""Calls that draw random numbers: listed in a file, or made to draw the same numbers every time.

Whether a call draws is read from the generators, not from its name: dropout in evaluation does not,
a user's own operator may.
"""

from __future__ import annotations

import csv
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from torchparity.calls import ApiMode, Attention, Call, Dispatcher, Interest, Listener, modes_of, put_below, take_off
from torchparity.calls.call_stacks import StackBook
from torchparity.devices import all_devices
from torchparity.errors import RunWriteError
from torchparity.ops import Kind, Op


class _DrawingListener(Listener):
    """Hears the calls that can draw; not those of other threads, nor what is compiled."""

    def __init__(self) -> None:
        self._dispatcher = Dispatcher(self)
        self._mode = _DrawingMode(self._dispatcher, self)

    def interest(self, op: Op) -> Interest:
        return Interest.CALLS if op.kind in (Kind.COMPUTES, Kind.BACKWARD) else Interest.NOTHING

    def attach(self) -> None:
        self._dispatcher.attention = Attention.LISTENING
        put_below(self._mode)

    def stop(self) -> None:
        """Hear no more calls."""
        self._dispatcher.attention = Attention.OFF
        take_off(self._mode)

    @staticmethod
    def generators_of(call: Call) -> list[torch.Generator]:
        """Return the generators among a call's arguments."""
        return [value for value in chain(call.args, call.kwargs.values()) if isinstance(value, torch.Generator)]


class _DrawingMode(ApiMode):
    """The mode of a listener, by which it can be found on a thread's stack."""

    def __init__(self, dispatcher: Dispatcher, listener: _DrawingListener) -> None:
        super().__init__(dispatcher)
        self.listener = listener


class Restarting(_DrawingListener):
    """Lets every call draw from the beginning, so that one that draws more on one side does not shift the others."""

    work = "seed, as seed_all(is_enhanced=True) asks,"

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed

    def before(self, call: Call) -> None:
        if _is_graph_being_captured():
            return
        for generator in _default_generators():
            generator.manual_seed(self._seed)
        for generator in self.generators_of(call):
            generator.manual_seed(generator.initial_seed())

    @classmethod
    def end_all(cls) -> None:
        """Stop those of an earlier time in this thread."""
        for mode in modes_of(_DrawingMode):
            if isinstance(mode.listener, cls):
                mode.listener.stop()


class RandomCalls(_DrawingListener):
    """Lists the calls that draw in a csv file, a line as each returns, until `stop` or the end of the process."""

    work = "list for random_save"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._stacks = StackBook()
        self._lock, self._counts = threading.Lock(), Counter[str]()
        with path.open("x", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(["api_name", "stack"])

    def __enter__(self) -> RandomCalls:
        return self  # it listens since it was made

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def before(self, call: Call) -> list[tuple[torch.Generator, bytes]] | None:
        if _is_graph_being_captured():
            return None
        generators = [*_default_generators(), *self.generators_of(call)]
        return list(zip(generators, _states(generators), strict=True))

    def after(self, call: Call, state: list[tuple[torch.Generator, bytes]], output: Any) -> None:
        self._list_if_drawn(call, state)

    def raised(self, call: Call, state: list[tuple[torch.Generator, bytes]], error: BaseException) -> None:
        self._list_if_drawn(call, state)  # one that raises may have drawn

    def _list_if_drawn(self, call: Call, before: list[tuple[torch.Generator, bytes]]) -> None:
        if _states([generator for generator, _ in before]) == [state for _, state in before] or call.frame is None:
            return
        with self._lock, self.path.open("a", newline="", encoding="utf-8", errors="backslashreplace") as file:
            name = call.op.name
            number = self._counts[name]
            self._counts[name] += 1
            csv.writer(file).writerow([f"{name}.{number}", "\n".join(self._stacks.frames_of(call.frame))])


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
    calls.attach()
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


def _states(generators: Sequence[torch.Generator]) -> list[bytes]:
    return [generator.get_state().numpy().tobytes() for generator in generators]


def _default_generators() -> list[torch.Generator]:
    """Return the generators of the host and of every device that is in use."""
    return [generator for device in all_devices() for generator in device.generators()]


def _is_graph_being_captured() -> bool:
    return any(device.is_capturing_graph() for device in all_devices())
