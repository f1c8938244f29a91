"""The threads of a script, which `python` waits for when the script has come to its end."""

from __future__ import annotations

import sys
import threading

_OURS = "torchparity-"


class ScriptThreads:
    """The threads that are started after this was made; daemons and our own do not count."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    def wait(self) -> None:
        """Wait for all of them to end."""
        pools = sys.modules.get("concurrent.futures.thread")
        while threads := self._alive():
            if pools is not None and any(each in pools._threads_queues for each in threads):
                pools._python_exit()  # as python does first: idle threads of a pool would wait for ever
            for thread in threads:
                thread.join()

    def _alive(self) -> list[threading.Thread]:
        return [
            each
            for each in threading.enumerate()
            if not each.daemon and each not in self._before and not each.name.startswith(_OURS)
        ]
