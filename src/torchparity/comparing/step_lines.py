"""Each step's loss and norm of the gradients in both runs, as numbers and as lines for people."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchparity.comparing.judging.evidence.step_facts import step_facts
from torchparity.comparing.part import PartComparison

_MOST_LINES = 10
_MOST_LOSSES = 3  # of micro-batches, in one line


class StepNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """The losses and norms of one step of one rank; the candidate's first."""

    step: int
    rank: int
    losses: tuple[tuple[float, ...], tuple[float, ...]]
    gradient_norms: tuple[float | None, float | None]


def step_numbers(parts: Sequence[PartComparison]) -> list[StepNumbers]:
    """Return the numbers of every step and rank that has a loss or a norm in one of the runs."""
    found = []
    for part in parts:
        mine, other = step_facts(part.candidate), step_facts(part.baseline)
        norms = mine.gradient_norm, other.gradient_norm
        if mine.losses or other.losses or norms != (None, None):
            losses = mine.losses, other.losses
            found.append(StepNumbers(step=part.step, rank=part.rank, losses=losses, gradient_norms=norms))
    return found


def step_lines(parts: Sequence[PartComparison]) -> list[str]:
    """Return a line for each step and rank, and one that says how many more there are."""
    numbers = step_numbers(parts)
    has_ranks = len({entry.rank for entry in numbers}) > 1
    lines = [_line(entry, has_ranks=has_ranks) for entry in numbers[:_MOST_LINES]]
    left = len(numbers) - len(lines)
    return [*lines, f"and {left} more"] if left else lines


def _line(numbers: StepNumbers, *, has_ranks: bool) -> str:
    where = f"step {numbers.step}, rank {numbers.rank}" if has_ranks else f"step {numbers.step}"
    said = []
    if any(numbers.losses):
        said.append(_against("loss", "loss", *numbers.losses))
    if numbers.gradient_norms != (None, None):
        mine, other = (() if norm is None else (norm,) for norm in numbers.gradient_norms)
        said.append(_against("norm", "norm of the gradients", mine, other))
    return f"{where}: {'; '.join(said)}"


def _against(noun: str, name: str, mine: Sequence[float], other: Sequence[float]) -> str:
    if not mine:
        return f"no {noun} against {_listed(other, 6)}"
    if not other:
        return f"{name} {_listed(mine, 6)} against no {noun}"
    if list(map(repr, mine)) == list(map(repr, other)):  # by text: nan is not itself
        return f"{name} {_listed(mine, 6)} in both runs"
    short = _listed(mine, 6), _listed(other, 6)
    left, right = short if short[0] != short[1] else (_listed(mine, 9), _listed(other, 9))
    return f"{name} {left} against {right}"


def _listed(numbers: Sequence[float], digits: int) -> str:
    more = f" and {len(numbers) - _MOST_LOSSES} more" if len(numbers) > _MOST_LOSSES else ""
    return ", ".join(f"{number:.{digits}g}" for number in numbers[:_MOST_LOSSES]) + more
