"""The calls of a run that a check takes: of several steps and ranks each kind of call once, unless they are named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torchparity.check.cases import Case, cases_of, form_of, without_duplicates
from torchparity.check.source import Source, refuse_without_calls
from torchparity.errors import ParityError
from torchparity.storage import RunPart
from torchparity.text import counted


@dataclass
class Chosen:
    """Calls to check, a sentence about those that were left out, and sentences about what cannot be read."""

    cases: list[Case] = field(default_factory=list)
    left_out: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def has_many_parts(self) -> bool:
        """True where the calls are of several steps or ranks."""
        return self.only_place is None and bool(self.cases)

    @property
    def only_place(self) -> tuple[int, int] | None:
        """The step and the rank of all calls; None where they are of several."""
        places = {(case.part.step, case.part.rank) for case in self.cases}
        return next(iter(places)) if len(places) == 1 else None


def chosen_cases(source: Source, *, filter_duplicates: bool) -> Chosen:
    """Return the calls to check, those of the first part whole.

    Steps and ranks that were named are checked whole too. Over those that nobody named, a call that differs from one
    of an earlier part in nothing but the values of its tensors is left out; with `filter_duplicates` it always is.
    """
    parts, chosen, left_out = source.parts(), Chosen(), 0
    known: dict[tuple[int | None, int | None], set[str]] = {}
    for part, cases in _readable(parts, chosen.problems):
        place = (None if source.steps is None else part.step, None if source.ranks is None else part.rank)
        forms = [form_of(case) for case in cases] if len(parts) > 1 else []
        earlier = known.setdefault(place, set())
        kept = [case for case, form in zip(cases, forms, strict=True) if form not in earlier] if forms else cases
        left_out += len(cases) - len(kept)
        earlier.update(forms)
        chosen.cases += kept
    if filter_duplicates:
        chosen.cases = list(without_duplicates(chosen.cases))
    elif left_out:
        chosen.left_out = _sentence(left_out, parts, source)
    return chosen


def _readable(parts: Sequence[RunPart], problems: list[str]) -> Iterator[tuple[RunPart, list[Case]]]:
    """Yield the parts with their calls; one that cannot be read is a problem, and raises where no other can be."""
    errors: list[ParityError] = []
    for part in parts:
        try:
            refuse_without_calls(part)
            cases = list(cases_of(part))
        except ParityError as error:
            errors.append(error)
            continue
        problems += part.problems
        yield part, cases
    if errors and len(errors) == len(parts):
        raise errors[0]
    problems += map(str, errors)


def _sentence(left_out: int, parts: Sequence[RunPart], source: Source) -> str:
    """Return what was left out, and how to have it checked."""
    numbers = {"step": (source.steps, {part.step for part in parts}), "rank": (source.ranks, {p.rank for p in parts})}
    over = [word for word, (named, there) in numbers.items() if named is None and len(there) > 1]
    where, options = " and ".join(f"{word}s" for word in over), " ".join(f"--{word} all" for word in over)
    return (
        f"Left out: {counted(left_out, 'call')} of other {where}, which differ in nothing but their values from calls "
        f"that were checked; {options} checks them too."
    )
