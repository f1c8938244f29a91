"""A kind of fault: where it can be planted, how, and what is true of a run that has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.faultbed.catalogue import Catalogue
from tests.faultbed.program import Program
from torchparity.comparing.judging.verdict import Kind

STRENGTHS = ("large", "moderate", "near")


@dataclass(frozen=True)
class Truth:
    """The records that a user would call exact, and the kinds; `step` is the first that shows the fault.

    With a `family` the record is the first of that operator whose arguments differ, inside the optimizer: which call of
    it that is depends on the model. `alone`: the fault adds or takes away records, and the first backward record that
    the candidate no longer has is as true. `kernel_returns_nothing`: what the call wrote is no output of its record, so
    that the first record of the next step that receives it is as true.
    """

    records: frozenset[str]
    kinds: frozenset[Kind]
    step: int = 0
    family: str = ""
    alone: bool = False
    kernel_returns_nothing: bool = False


@dataclass(frozen=True)
class Fault:
    """A kind of fault. `amounts` are those of the strengths in order; where there is one, the fault has no strengths.

    `places` are the records in the subject's baseline at which it can be planted, none where it cannot.
    """

    kind: str
    places: Callable[[Catalogue, Program], Sequence[str]]
    plant: Callable[[Program, Catalogue, str, float], Truth]
    amounts: tuple[float, ...] = (0.0,)
    from_subjects: frozenset[str] = frozenset()  # empty: all of them

    def strengths(self) -> list[tuple[str, float]]:
        return list(zip(STRENGTHS, self.amounts, strict=False))
