"""The results of one output or input gradient, and the words for how they are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

Emulate = Callable[[int], Any]
Pick = Callable[[Any], Any]


class Status(str, Enum):
    """Judgement of one result or of one direction of an API, as the result files spell it."""

    PASS = "pass"
    WARNING = "warning"
    ERROR = "error"
    SKIP = "SKIP"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of one output or input gradient: of the device, of the CPU in the same dtype, and of the reference.

    Each result is a tensor on the CPU, a Python scalar, or None where there is none. `emulate(number)` computes
    sample `number` (0, 1, …) of the reference with the tested dtype's rounding emulated, see `check/emulation`;
    it is called only where the pass rule fails, and the same number must give the same result.
    """

    api: str  # "Functional.linear", without the number of the call
    name: str  # "Functional.linear.0.forward.output.0"
    device: Any
    reference: Any  # in higher precision, or the same for integers
    same_dtype: Any | None = None  # None where the CPU cannot run it, or is the device
    emulate: Emulate | None = None
    pick: Pick | None = None  # gives the values that indices choose, None for indices that no right kernel returns
    tf32: Emulate | None = None  # gives the reference with its products in a variant (0, 1, …) of TF32
    recurs_in_tf32: bool = False  # the device is set to use TF32 in recurrences, for whichever of their products
    solves: Callable[[], bool] | None = None  # tells whether free vectors solve the equation that defines them
    is_exact: bool = False  # it moves or selects numbers, and makes no new ones


_WORST_FIRST = (Status.ERROR, Status.WARNING, Status.PASS, Status.SKIP)


def join(statuses: Iterable[Status]) -> Status | None:
    """Return the worst status: error, else warning, else pass; SKIP where all were skipped, None without any."""
    given = set(statuses)
    return next((status for status in _WORST_FIRST if status in given), None)
