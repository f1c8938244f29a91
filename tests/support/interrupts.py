"""Interrupts as handlers of signals bring them, wherever Python lets them in some file, one place after the other.

Python runs handlers when a function begins, after a call and when a loop goes round.
"""

from __future__ import annotations

import dis
import itertools
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class AlarmError(Exception):
    """Raised by the handler of an alarm."""


def ring() -> None:
    raise AlarmError


def interrupts(file: str, handler: Callable[[], object]) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Yield ways to run work in which `handler` runs once: at the first place in a file, the second, and so on.

    Ends behind the last place. An `AlarmError` of the handler ends the work.
    """
    for step in itertools.count():
        interrupt = _Interrupt(file, step, handler)
        yield interrupt.run
        if not interrupt.has_come:
            return


class _Interrupt:
    def __init__(self, file: str, step: int, handler: Callable[[], object]) -> None:
        self._file, self._left, self._handler = file, step, handler
        self.has_come = False
        self._last_of: dict[FrameType, str] = {}  # the instruction that each frame has just done

    def run(self, work: Callable[[], object]) -> None:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            work()
        except AlarmError:
            pass
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.has_come or frame.f_code.co_filename != self._file:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            last, self._last_of[frame] = self._last_of.get(frame), _instruction(frame)
            if last is None or last.startswith(("CALL", "JUMP_BACKWARD", "JUMP_ABSOLUTE")):
                self._interrupt()
        return self._trace

    def _interrupt(self) -> None:
        self._left -= 1
        if self._left < 0:
            self.has_come = True
            sys.settrace(None)
            self._handler()


def _instruction(frame: FrameType) -> str:
    return dis.opname[frame.f_code.co_code[frame.f_lasti]]
