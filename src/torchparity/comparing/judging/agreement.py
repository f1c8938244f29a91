"""The closeness of two runs where nothing is blamed, over all ranks and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchparity.comparing.judging.limits import Limits
from torchparity.comparing.judging.part import ComparedPart
from torchparity.comparing.judging.search.rank_search import RankSearch
from torchparity.comparing.judging.verdict import Agreement
from torchparity.text import counted

Searches = Mapping[int, RankSearch]  # by rank


def total_agreement(searches: Searches, parts: Sequence[ComparedPart], limits: Limits) -> Agreement:
    """Return how close the runs are over all ranks and steps."""
    closeness = [search.closeness for search in searches.values()]
    largest, item = max((entry.furthest for entry in closeness), default=(0.0, ""))
    remainder, remainder_item = max((entry.furthest_remainder for entry in closeness), default=(0.0, ""))
    return Agreement(
        is_identical=not any(entry.has_unequal for entry in closeness),
        compares_every_bit=all(part.mode != "statistics" for part in parts),
        largest=largest,
        item=item,
        remainder=remainder,
        remainder_item=remainder_item,
        apart_from=_apart_from(searches, limits),
    )


def _apart_from(searches: Searches, limits: Limits) -> str:
    """Return what the user's limits leave out, as the end of a clause; "" where they leave nothing out."""
    ignored = [finding for search in searches.values() for finding in search.ignored]
    behind = f" behind {limits.after}, where --after begins" if limits.after is not None else ""
    if not ignored:
        return behind
    places = f"{counted(len(ignored), 'place')}, first {ignored[0].record}"
    return f"{behind}, apart from what --ignore leaves out ({places})"
