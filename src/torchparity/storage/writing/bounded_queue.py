"""A queue bounded by bytes: producers wait while it is full, so that memory does not grow."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

Entry = TypeVar("Entry")
_PATIENCE = 0.2  # seconds between looks at whether the program has ended


class ByteBoundedQueue(Generic[Entry]):
    """First in, first out. An entry larger than the limit passes when the queue is empty."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: deque[tuple[Entry, int]] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()

    def put(self, entry: Entry, nbytes: int) -> None:
        """Add an entry, waiting for room; after `close` entries are dropped."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._bytes or self._bytes + nbytes <= self._limit)
            if not self._closed:
                self._entries.append((entry, nbytes))
                self._bytes += nbytes
                self._changed.notify_all()

    def get(self, at_exit: Entry) -> Entry:
        """Return the oldest entry, waiting for one; `at_exit` when the program ends and there is none."""
        with self._changed:
            while not self._entries:
                if not self._changed.wait(timeout=_PATIENCE) and not threading.main_thread().is_alive():
                    return at_exit
            entry, nbytes = self._entries.popleft()
            self._bytes -= nbytes
            self._changed.notify_all()
            return entry

    def is_empty(self) -> bool:
        return not self._entries

    def close(self) -> None:
        """Drop all entries; waiting producers return, and later entries are dropped."""
        with self._changed:
            self._closed = True
            self._entries.clear()
            self._bytes = 0
            self._changed.notify_all()
