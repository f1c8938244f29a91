"""Pairs the parts of two runs: every step and rank of the one with that of the other, and a sentence on the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from torchparity.comparing.rank_map import numbered, refuse_unknown_ranks
from torchparity.errors import RunNotFoundError
from torchparity.storage import RunPart, RunReader, open_run

_STEP = r"(?a)step\d{1,9}"
_Place = tuple[int, int]  # step and rank


class PartPairs(msgspec.Struct, frozen=True):
    """The pairs of parts, sentences about the others, and how many of them nobody asked to leave out."""

    pairs: list[tuple[RunPart, RunPart]]
    notes: list[str]
    alone: int


def run_of(path: Path) -> Path:
    """Return the run that a step folder, a rank folder or a file in them belongs to; a run is its own."""
    named = path.absolute()
    if named.is_dir() and any(re.fullmatch(_STEP, entry.name) for entry in named.iterdir()):
        return path
    return next((folder.parent for folder in (named, *named.parents) if re.fullmatch(_STEP, folder.name)), path)


def pair_parts(candidate: RunReader, baseline: RunReader, rank_map: Mapping[int, int]) -> PartPairs:
    """Pair the parts of the same step and rank, or of the ranks that a map names; raise where there is no pair."""
    if len(candidate.parts) == len(baseline.parts) == 1 and not rank_map:
        return PartPairs([(candidate.parts[0], baseline.parts[0])], _about_one_part(candidate, baseline), 0)
    if rank_map:
        refuse_unknown_ranks(rank_map, candidate.ranks, baseline.ranks)
    mine, others = (_by_place(run, is_mapped=bool(rank_map)) for run in (candidate, baseline))
    step_of, notes = _steps(candidate, baseline)
    partners = {
        place: (step_of.get(place[0], place[0]), rank_map.get(place[1], -1) if rank_map else place[1])
        for place in sorted(mine)
    }
    both = {place: partner for place, partner in partners.items() if partner in others}
    if not both:
        raise RunNotFoundError(_nothing_in_common(candidate, baseline))
    alone = [place for place in mine if place not in both], [place for place in others if place not in both.values()]
    if rank_map:
        alone = (
            [place for place in alone[0] if place[1] in rank_map],
            [place for place in alone[1] if place[1] in rank_map.values()],
        )
        notes += _about_unmapped(candidate, baseline, rank_map)
    notes += _about_alone(mine, others, alone)
    pairs = [
        (mine[place], part) for place, part in zip(both, _each_alone(baseline, others, both.values()), strict=True)
    ]
    return PartPairs(pairs, notes, sum(map(len, alone)))


def _by_place(run: RunReader, *, is_mapped: bool) -> dict[_Place, RunPart]:
    """Return the parts by step and rank; a single process has rank 0, whatever its own number."""
    is_process = not is_mapped and len(run.ranks) == 1 and _are_processes(run)
    places: dict[_Place, RunPart] = {}
    for part in run.parts:
        first = places.setdefault((part.step, 0 if is_process else part.rank), part)
        if first is not part:
            raise RunNotFoundError(
                f"{run.path} has rank {part.rank} of step {part.step} twice: {first.folder.name} and "
                f"{part.folder.name}; name the folder of the one to compare."
            )
    return places


def _each_alone(run: RunReader, parts: Mapping[_Place, RunPart], wanted: Iterable[_Place]) -> Iterator[RunPart]:
    """Yield the parts that are wanted; one that is wanted again is opened again, since each is closed on its own."""
    taken: set[_Place] = set()
    for place in wanted:
        part = parts[place]
        yield open_run(run.path).part(part.step, part.rank) if place in taken else part
        taken.add(place)


def _are_processes(run: RunReader) -> bool:
    return all(part.folder.name.startswith("proc") for part in run.parts)


def _steps(candidate: RunReader, baseline: RunReader) -> tuple[dict[int, int], list[str]]:
    """Return the baseline's step for that of the candidate where each run has one and they differ, and say so."""
    if len(candidate.steps) != 1 or len(baseline.steps) != 1 or candidate.steps == baseline.steps:
        return {}, []
    mine, other = candidate.steps[0], baseline.steps[0]
    return {mine: other}, [f"step {mine} of the candidate is compared with step {other} of the baseline."]


def _about_one_part(candidate: RunReader, baseline: RunReader) -> list[str]:
    (place,), (other,) = (_by_place(run, is_mapped=False) for run in (candidate, baseline))
    if place == other:
        return []
    partner = f"step {other[0]}, rank {other[1]} of the baseline"
    return [f"step {place[0]}, rank {place[1]} of the candidate is compared with {partner}."]


def _nothing_in_common(candidate: RunReader, baseline: RunReader) -> str:
    hint = ""
    if len(candidate.ranks) > 1 and set(candidate.ranks).isdisjoint(baseline.ranks):
        pairs = ",".join(f"{mine}:{other}" for mine, other in zip(candidate.ranks, baseline.ranks, strict=False))
        hint = f" --rank-map says which belong together, such as {pairs}."
    return (
        f"{candidate.path} and {baseline.path} have no step and rank in common: the candidate has steps "
        f"{candidate.steps} and ranks {candidate.ranks}, the baseline steps {baseline.steps} and ranks "
        f"{baseline.ranks}.{hint}"
    )


def _about_unmapped(candidate: RunReader, baseline: RunReader, rank_map: Mapping[int, int]) -> list[str]:
    """Return one sentence about the ranks that the map does not name."""
    left_out = (
        ("candidate", [rank for rank in candidate.ranks if rank not in rank_map]),
        ("baseline", [rank for rank in baseline.ranks if rank not in rank_map.values()]),
    )
    told = [f"{numbered('rank', ranks)} of the {side}" for side, ranks in left_out if ranks]
    count = sum(len(ranks) for _, ranks in left_out)
    verbs = "is not in the rank map and was" if count == 1 else "are not in the rank map and were"
    return [f"{' and '.join(told)} {verbs} not compared."] if told else []


def _about_alone(
    mine: Iterable[_Place], others: Iterable[_Place], alone: tuple[list[_Place], list[_Place]]
) -> Iterator[str]:
    """Yield one sentence about the ranks that one run alone has, and one for each row of steps of others."""
    whole: list[tuple[str, list[int]]] = []
    rows: list[str] = []
    for side, there, places in (("candidate", mine, alone[0]), ("baseline", others, alone[1])):
        compared = {rank for _, rank in set(there) - set(places)}
        ranks = sorted({rank for _, rank in places} - compared)
        if ranks:
            whole.append((side, ranks))
        rows += _about_steps(side, [place for place in places if place[1] in compared])
    if whole:
        told = [f"{numbered('rank', ranks)} {_are(ranks)} in the {side} alone" for side, ranks in whole]
        verb = "was" if sum(len(ranks) for _, ranks in whole) == 1 else "were"
        yield (
            f"{told[0]} and {verb} not compared."
            if len(told) == 1
            else f"{' and '.join(told)}; they were not compared."
        )
    yield from rows


def _about_steps(side: str, places: Iterable[_Place]) -> Iterator[str]:
    """Yield a sentence for the ranks that lack the same steps."""
    steps_of: dict[int, list[int]] = {}
    for step, rank in sorted(places):
        steps_of.setdefault(rank, []).append(step)
    ranks_of: dict[tuple[int, ...], list[int]] = {}
    for rank, steps in steps_of.items():
        ranks_of.setdefault(tuple(steps), []).append(rank)
    for lacking, ranks in ranks_of.items():
        is_one = len(lacking) == len(ranks) == 1
        verbs = ("is", "was") if is_one else ("are", "were")
        where = f"{numbered('step', lacking)}, {numbered('rank', ranks)}"
        yield f"{where} {verbs[0]} in the {side} alone and {verbs[1]} not compared."


def _are(numbers: list[int]) -> str:
    return "is" if len(numbers) == 1 else "are"
