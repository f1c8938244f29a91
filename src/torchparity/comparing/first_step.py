"""The first step after which two runs have other weights or another loss, from checksums of every so many steps."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from torchparity.storage.step_checksums import StepChecksum, StepChecksums, ranks_with_checksums, read_checksums
from torchparity.text import counted


@dataclass(frozen=True)
class FirstStep:
    """The answer of two runs' checksums, in lines for people; `differs` says whether they part."""

    lines: list[str]
    differs: bool


def first_step(candidate: Path, baseline: Path) -> FirstStep | None:
    """Compare the checksums of two runs; None where they have none of a common rank."""
    ranks = sorted(set(ranks_with_checksums(candidate)) & set(ranks_with_checksums(baseline)))
    if not ranks:
        return None
    found = [_of_rank(rank, read_checksums(candidate, rank), read_checksums(baseline, rank)) for rank in ranks]
    parting = [(step, each) for step, each in found if step is not None]
    if parting:
        return FirstStep(min(parting, key=lambda pair: pair[0])[1].lines, differs=True)
    return found[0][1]


def _of_rank(rank: int, candidate: StepChecksums, baseline: StepChecksums) -> tuple[int | None, FirstStep]:
    """Return the first step that differs on one rank, and what to say of it."""
    where = f"rank {rank}: "
    if candidate.start != baseline.start:
        line = f"{where}The weights differ before the first step: the models are not initialized or loaded alike."
        return -1, FirstStep([line], differs=True)
    others = {each.step: each for each in baseline.steps}
    common = [(each, others[each.step]) for each in candidate.steps if each.step in others]
    before = -1
    for own, other in common:
        if own != other:
            line = f"{where}The first step that differs is {_span(before, own.step)}: {_what(own, other)}."
            return own.step, FirstStep([line, f"Record it: {_command(candidate, before + 1, own.step)}"], differs=True)
        before = own.step
    if not common:
        return None, FirstStep([f"{where}The runs have no checksum of a common step."], differs=False)
    seen = counted(len(common), "step")
    return None, FirstStep([f"{where}Weights and losses of {seen} are equal, up to step {before}."], differs=False)


def _span(before: int, step: int) -> str:
    return f"step {step}" if before + 1 == step else f"one of the steps {before + 1} to {step}"


def _what(own: StepChecksum, other: StepChecksum) -> str:
    """Say what differs after a step."""
    weights = "" if own.weights == other.weights else "the weights differ"
    loss = "" if own.loss == other.loss else f"the loss is {own.loss}, the baseline's {other.loss}"
    return " and ".join(part for part in (weights, loss) if part)


def _command(run: StepChecksums, first: int, last: int) -> str:
    steps = str(last) if first == last else f"{first}-{last}"
    return f"torchparity run --steps {steps} -o step{last} {shlex.join(run.command)}"
