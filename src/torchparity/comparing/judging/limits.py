"""The limits that a user sets to the judge: what to ignore, from where on to look, how much to allow."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchparity.comparing.judging.record_patterns import matches


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Patterns are names of records, paths of modules or shell patterns of either.

    What `ignore` names is taken for expected, with all that follows from it; records up to the one that `after` names
    are not judged; `tolerance` replaces the deviation that rounding is expected to explain.
    """

    ignore: tuple[str, ...] = ()
    after: str | None = None
    tolerance: float | None = None

    def ignores(self, record: str, parents: Mapping[str, str | None]) -> bool:
        """Tell whether a record is one that the user expects to differ."""
        return any(matches(pattern, record, parents) for pattern in self.ignore)
