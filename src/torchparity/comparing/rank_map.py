"""Ranks of the candidate with those of the baseline that they are compared with: `--rank-map 0:4,1:5`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from torchparity.comparing.judging.evidence.operators import communicates
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.pairing.items import Side
from torchparity.errors import ConfigError
from torchparity.records import GroupLeaf, ValueLeaf

_PAIR = r"(?a)(\d{1,18})(?:-(\d{1,18}))?:(\d{1,18})(?:-(\d{1,18}))?"
_MOST_RANKS = 1 << 20
_EXAMPLE = "give pairs such as 0:4,1:5, ranges such as 0-3:4-7, or several for one such as 0-3:0"


def parse_rank_map(text: str) -> dict[int, int]:
    """Return the baseline's rank for each of the candidate's; raise `ConfigError` for what is no map of ranks."""
    ranks: dict[int, int] = {}
    for part in text.split(","):
        pair = re.fullmatch(_PAIR, part.strip())
        if pair is None:
            raise ConfigError(
                f"the rank map {text[:80]!r} has {part.strip()[:40]!r}, which is no pair of ranks; {_EXAMPLE}."
            )
        mine, others = _ranks(pair[1], pair[2]), _ranks(pair[3], pair[4])
        if not mine or len(others) not in (1, len(mine)):
            raise ConfigError(f"the rank map has {part.strip()!r}, whose sides do not have as many ranks; {_EXAMPLE}.")
        for place, rank in enumerate(mine):
            if rank in ranks:
                raise ConfigError(f"the rank map names rank {rank} of the candidate twice; {_EXAMPLE}.")
            ranks[rank] = others[place] if len(others) > 1 else others[0]
    return ranks


def given_rank_map(given: str | Mapping[int, int] | None) -> dict[int, int]:
    """Return a map of ranks that is given as text, as a mapping or not at all."""
    return parse_rank_map(given) if isinstance(given, str) else dict(given or {})


def refuse_unknown_ranks(rank_map: Mapping[int, int], candidate: Sequence[int], baseline: Sequence[int]) -> None:
    """Raise `ConfigError` for a rank that its run does not have."""
    for side, wanted, ranks in (("candidate", rank_map.keys(), candidate), ("baseline", rank_map.values(), baseline)):
        for rank in wanted:
            if rank not in ranks:
                raise ConfigError(f"the rank map names rank {rank} of the {side}, which has {numbered('rank', ranks)}.")


def with_partner_ranks(group: Sequence[ItemComparison], rank_map: Mapping[int, int]) -> list[ItemComparison]:
    """Return the items of a record; where ranks communicate, one and its partner are no difference."""
    return [
        msgspec.structs.replace(entry, deviation=0.0)
        if entry.deviation and communicates(entry.record) and _are_partners(entry.candidate, entry.baseline, rank_map)
        else entry
        for entry in group
    ]


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """Return "rank 3", "ranks 0 to 3" or "ranks 0, 2 and 5 to 7"."""
    spans: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number - 1:
            spans[-1] = spans[-1][0], number
        else:
            spans.append((number, number))
    texts = [str(first) if first == last else f"{first} to {last}" for first, last in spans]
    listed = f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else "".join(texts)
    return f"{noun}{'' if len(numbers) == 1 else 's'} {listed}"


def _ranks(first: str, last: str | None) -> Sequence[int]:
    start, stop = int(first), int(last or first)
    if stop - start >= _MOST_RANKS:
        raise ConfigError(f"the rank map has the range {first}-{last}, which is longer than any training; {_EXAMPLE}.")
    return range(start, stop + 1)


def _are_partners(mine: Side | None, other: Side | None, rank_map: Mapping[int, int]) -> bool:
    """Tell whether two arguments name ranks that are compared with each other: a peer, or a group of processes."""
    left, right = (_named_ranks(side) for side in (mine, other))
    return left is not None and [rank_map.get(rank) for rank in left] == right


def _named_ranks(side: Side | None) -> list[int] | None:
    leaf = side.leaf if side is not None else None
    if isinstance(leaf, GroupLeaf):
        return list(leaf.ranks)
    return [leaf.value] if isinstance(leaf, ValueLeaf) and leaf.type == "int" else None
