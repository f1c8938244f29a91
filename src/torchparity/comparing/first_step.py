"""The first step after which two runs have other weights or another loss, from checksums of every so many steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from torchparity.errors import RunNotFoundError
from torchparity.storage.step_checksums import StepChecksum, StepChecksums, ranks_with_checksums, read_checksums
from torchparity.text import counted
from torchparity.version import __version__

SCHEMA = 1
ChecksumVerdict = Literal["agree", "divergence", "cannot tell"]


class FirstStep(msgspec.Struct, frozen=True):
    """The answer of two runs' checksums; `steps` are the first and last of those of which one differs."""

    verdict: ChecksumVerdict
    sentence: str
    rank: int
    steps: tuple[int, int] | None = None
    remarks: Sequence[str] = ()
    commands: Sequence[str] = ()

    @property
    def lines(self) -> list[str]:
        """The answer for people."""
        commands = ["Record it in both runs, and compare:", *(f"  {each}" for each in self.commands)]
        return [f"rank {self.rank}: {self.sentence}", *self.remarks, *(commands if self.commands else ())]

    def exit_code(self, fail_on: str) -> int:
        """Return 1 where the runs part and that shall fail, 2 where nobody can tell."""
        if self.verdict == "cannot tell":
            return 2
        if fail_on == "any":
            return int(self.verdict == "divergence" or bool(self.remarks))
        return int(self.verdict == "divergence" and fail_on == "divergence")

    def as_json(self, fail_on: str) -> dict[str, Any]:
        """Return the answer for programs; docs/run.md has the keys."""
        return {
            "checksum_schema": SCHEMA,
            "tool": f"torchparity {__version__}",
            "verdict": self.verdict,
            "sentence": self.lines[0],
            "rank": self.rank,
            "steps": self.steps,
            "remarks": list(self.remarks),
            "next": list(self.commands),
            "fail_on": fail_on,
            "exit_code": self.exit_code(fail_on),
        }


def first_step(candidate: Path, baseline: Path) -> FirstStep | None:
    """Compare the checksums of two runs; None where neither has any, or recorded steps are there to compare."""
    ranks_of = {run: set(ranks_with_checksums(run)) for run in (candidate, baseline)}
    common = sorted(ranks_of[candidate] & ranks_of[baseline])
    if not common:
        _refuse_checksums_alone(ranks_of)
        return None
    found = [
        _of_rank(rank, len(common), read_checksums(candidate, rank), read_checksums(baseline, rank)) for rank in common
    ]
    alone = _ranks_alone(ranks_of[candidate], ranks_of[baseline])
    first = min(found, key=lambda each: (_ORDER[each.verdict], each.steps or (-1, -1)))
    return msgspec.structs.replace(first, remarks=[*first.remarks, *alone])


_ORDER: dict[ChecksumVerdict, int] = {"divergence": 0, "cannot tell": 1, "agree": 2}


def _refuse_checksums_alone(ranks_of: dict[Path, set[int]]) -> None:
    """Raise where one run has nothing but checksums, and the other has none to compare them with."""
    runs = list(ranks_of.items())
    (candidate, of_candidate), (baseline, of_baseline) = runs[0], runs[-1]
    if of_candidate and of_baseline:
        have = " against ".join(_numbered("rank", sorted(each)) for each in (of_candidate, of_baseline))
        raise RunNotFoundError(f"the checksums of {candidate} and {baseline} have no common rank: {have}.")
    for run, ranks, other in ((candidate, of_candidate, baseline), (baseline, of_baseline, candidate)):
        if ranks and not any(run.glob("step*")):
            raise RunNotFoundError(
                f"{run} has checksums of steps and no recorded step, and {other} has no checksums; "
                "record both with --checksum-every, or both with --steps."
            )


def _ranks_alone(candidate: set[int], baseline: set[int]) -> list[str]:
    sides = (("candidate", candidate - baseline), ("baseline", baseline - candidate))
    return [
        f"{_numbered('rank', sorted(ranks))} {'is' if len(ranks) == 1 else 'are'} in the {side} alone."
        for side, ranks in sides
        if ranks
    ]


def _of_rank(rank: int, ranks: int, candidate: StepChecksums, baseline: StepChecksums) -> FirstStep:
    """Return what to say of one rank, of several."""
    if candidate.start != baseline.start:
        sentence = "The weights differ before the first step: the models are not initialized or loaded alike."
        return FirstStep("divergence", sentence, rank)
    others = {each.step: each for each in baseline.steps}
    common = [(each, others[each.step]) for each in candidate.steps if each.step in others]
    if not common:
        have = " against ".join(_numbered("step", [each.step for each in run.steps]) for run in (candidate, baseline))
        advice = "record both with the same --checksum-every"
        return FirstStep("cannot tell", f"The runs have no checksum of a common step: {have}; {advice}.", rank)
    before = -1
    for own, other in common:
        if own != other:
            differs = f"The first step that differs is {_span(before, own.step)}: {_what(own, other)}."
            sentence = differs + _where(before, own, other)
            steps = (before + 1, own.step)
            commands = _commands(steps, ranks, candidate, baseline)
            return FirstStep("divergence", sentence, rank, steps, commands=commands)
        before = own.step
    sentence = f"Weights and losses of {counted(len(common), 'step')} are equal, up to step {before}."
    return FirstStep("agree", sentence, rank, remarks=_lengths(candidate, baseline))


def _lengths(candidate: StepChecksums, baseline: StepChecksums) -> list[str]:
    """Return a sentence where one run is longer than the other."""
    ends = {"candidate": candidate.steps[-1].step, "baseline": baseline.steps[-1].step}
    longer, shorter = max(ends, key=ends.__getitem__), min(ends, key=ends.__getitem__)
    if ends[longer] == ends[shorter]:
        return []
    return [f"The {longer} goes on to step {ends[longer]}, the {shorter} has no checksum after step {ends[shorter]}."]


def _span(before: int, step: int) -> str:
    return f"step {step}" if before + 1 == step else f"one of the steps {before + 1} to {step}"


def _numbered(noun: str, numbers: Sequence[int]) -> str:
    if len(numbers) < 2:
        return f"{noun} {numbers[0]}" if numbers else "none"
    return f"{noun}s {numbers[0]} to {numbers[-1]}"


def _what(own: StepChecksum, other: StepChecksum) -> str:
    """Say what differs after a step."""
    weights = "" if own.weights == other.weights else "the weights differ"
    return " and ".join(part for part in (weights, _what_of_losses(own.losses, other.losses)) if part)


def _where(before: int, own: StepChecksum, other: StepChecksum) -> str:
    """Return a sentence where one step has other weights after an equal loss."""
    if before + 1 < own.step or not own.losses or own.losses != other.losses:
        return ""
    return " Its loss is equal: look at backward, the optimizer and the buffers."


def _what_of_losses(own: Sequence[str], other: Sequence[str]) -> str:
    if len(own) != len(other):
        return f"backward was called on {_losses(len(own))}, in the baseline on {len(other)}"
    for number, (mine, theirs) in enumerate(zip(own, other, strict=True), 1):
        if mine != theirs:
            which = "the loss" if len(own) == 1 else f"loss {number} of {len(own)}"
            return f"{which} is {mine}, the baseline's {theirs}"
    return ""


def _losses(count: int) -> str:
    return f"{count} loss" if count == 1 else f"{count} losses"


def _commands(steps: tuple[int, int], ranks: int, candidate: StepChecksums, baseline: StepChecksums) -> list[str]:
    """Return the commands that record these steps of both runs and compare them."""
    from shlex import join  # no comparison of recorded steps needs it

    first, last = steps
    wanted = str(last) if first == last else f"{first}-{last}"
    start = "torchparity run" if ranks == 1 else f"torchrun --nproc-per-node {ranks} -m torchparity run"
    folders = [f"{side}_step{last}" for side in ("candidate", "baseline")]
    recording = [
        f"{start} --steps {wanted} --stop-after -o {folder} {join(run.command)}"
        for folder, run in zip(folders, (candidate, baseline), strict=True)
    ]
    return [*recording, f"torchparity compare {' '.join(folders)}"]
