"""Threads of this process."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchparity.comparing.engines import Engine, Opener
from torchparity.comparing.measuring.pair_reader import (
    MOST_REMOTE,
    SHARED_FROM,
    PairReader,
    Progress,
    Result,
    measured,
    measured_mapped,
)
from torchparity.errors import ConfigError, ParityError
from torchparity.records import TensorLeaf

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from torchparity.storage import MappedTensor, StoredTensor

_HANDED_OVER_FROM = 1 << 13  # elements below which waking a thread takes longer than comparing
_MOST_AHEAD = 256  # pairs that are opened before they are read


class LocalEngine:
    """Measures each part when it is finished, on all cores."""

    where = ""

    def begin(self, reader: PairReader) -> None:
        """Do nothing yet: a part's files stay closed until its turn."""

    def finish(self, reader: PairReader, progress: Progress, meanwhile: Callable[[], None]) -> None:
        """Measure all pairs; this thread opens the files and the others compare."""
        from concurrent.futures import ThreadPoolExecutor  # not loaded where no values are stored

        is_remote = reader.candidate.is_remote or reader.baseline.is_remote
        with ThreadPoolExecutor(MOST_REMOTE if is_remote else os.cpu_count()) as pool:
            work = _Work(reader, pool, MOST_REMOTE if is_remote else _MOST_AHEAD)
            begin = work.begin_remote if is_remote else work.begin
            for done, (places, pair) in enumerate(reader.wanted.items()):
                progress(done, len(reader.wanted))
                begin(places, *pair)
            meanwhile()
            work.finish()


class _Work:
    """The pairs of one part that are being measured."""

    def __init__(self, reader: PairReader, pool: ThreadPoolExecutor, most: int) -> None:
        self._reader, self._pool, self._most = reader, pool, most
        self._running: deque[tuple[Hashable, Future[Result]]] = deque()
        self._begun: set[Hashable] = set()

    def begin(self, places: Hashable, mine: TensorLeaf, other: TensorLeaf) -> None:
        """Have a pair compared, unless its content has been or one of its files cannot be read."""
        reader, content = self._reader, places
        # This thread alone opens files: two that do so hand the interpreter lock to each other at every system call.
        try:
            left, right = reader.candidate.stored(mine), reader.baseline.stored(other)
            if left.content is not None and right.content is not None:
                content = left.content, right.content
                reader.place(places, content)
            if content in self._begun or mine.numel >= SHARED_FROM:
                return  # the reader measures the largest when it is asked, by all cores
            self._begun.add(content)
            work = left, left.map(), right, right.map()
        except ParityError as error:
            reader.put(content, error)
            return
        if mine.numel < _HANDED_OVER_FROM:
            reader.put(content, _by_one_core(*work))
        else:
            self._add(content, self._pool.submit(_by_one_core, *work))

    def begin_remote(self, places: Hashable, mine: TensorLeaf, other: TensorLeaf) -> None:
        """Have a pair fetched and compared by one thread: fetching takes the time, and memory is what it needs."""
        if mine.numel < SHARED_FROM:
            self._add(places, self._pool.submit(_fetched, self._reader, mine, other))

    def finish(self) -> None:
        while self._running:
            self._finish_one()

    def _add(self, content: Hashable, future: Future[Result]) -> None:
        self._running.append((content, future))
        while len(self._running) > self._most:
            self._finish_one()

    def _finish_one(self) -> None:
        content, future = self._running.popleft()
        self._reader.put(content, future.result())


def _by_one_core(left: StoredTensor, mine: MappedTensor, right: StoredTensor, other: MappedTensor) -> Result:
    try:
        return measured_mapped(left, mine, right, other)
    except ParityError as error:
        return error


def _fetched(reader: PairReader, mine: TensorLeaf, other: TensorLeaf) -> Result:
    try:
        return measured(reader.candidate.stored(mine), reader.baseline.stored(other))
    except ParityError as error:
        return error


@contextmanager
def _open(address: str | None) -> Iterator[Engine]:
    if address is not None:
        raise ConfigError(f"the engine local has no use for the address {address!r}; --engine ray has one.")
    yield LocalEngine()


PLUGIN: Opener = _open
