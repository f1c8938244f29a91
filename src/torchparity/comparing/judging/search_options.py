"""What a user asks of the search for the first difference."""

from __future__ import annotations

import msgspec


class SearchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to pass over and what counts as a difference.

    `ignore` are patterns of records that are never blamed; `after` is that of the record behind which the search
    begins; `judging.record_patterns` has their grammar. `tolerance` is a relative deviation in place of the derived
    ones.
    """

    ignore: tuple[str, ...] = ()
    after: str | None = None
    tolerance: float | None = None
