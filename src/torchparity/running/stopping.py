"""The end of a script after the last step that is wanted, whichever of its threads makes that step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

# One that no program sends by itself; without pthread_kill, on Windows, the thread ends and the script goes on.
_SIGNAL = getattr(signal, "SIGRTMAX", getattr(signal, "SIGUSR2", None))


class LastStepDone(SystemExit):
    """Ends the script after the last step that is wanted."""

    def __init__(self) -> None:
        super().__init__(0)


class NamesRefused(SystemExit):
    """Ends a script that has hardly begun: what was asked for can never come."""

    def __init__(self) -> None:
        super().__init__(2)


class Stopping:
    """Ends the script: its main thread may wait for the one that trains, and for ever."""

    def __init__(self) -> None:
        self.ended_after: int | None = None  # a step
        self._is_running = self._is_attached = False

    def attach(self) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        if _SIGNAL is not None and is_main and signal.getsignal(_SIGNAL) in (signal.SIG_DFL, signal.SIG_IGN):
            signal.signal(_SIGNAL, self._arrived)
            self._is_attached = True

    def detach(self) -> None:
        if self._is_attached and _SIGNAL is not None:
            self._is_attached = False
            signal.signal(_SIGNAL, signal.SIG_IGN)  # and not the default: it may be on its way

    def run(self, work: Callable[[], None]) -> BaseException | None:
        """Do work of the script in the main thread; return what it raised, or what ended it."""
        self._is_running = True
        try:
            work()
        except BaseException as raised:  # noqa: BLE001 - whatever it is, it is the script's and passes through
            return raised
        finally:
            self._is_running = False
        return None

    def stop(self, step: int) -> None:
        """End this thread, and the main one with `LastStepDone`."""
        self.ended_after = step
        main = threading.main_thread()
        if threading.current_thread() is main:
            raise LastStepDone
        if self._is_attached and _SIGNAL is not None and main.ident is not None:
            signal.pthread_kill(main.ident, _SIGNAL)
        raise SystemExit(0)  # threading is silent about this class alone

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self._is_running:
            raise LastStepDone
