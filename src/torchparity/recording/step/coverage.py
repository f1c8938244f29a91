"""Coverage: which kinds of calls a recording has records of, and what the recorder is told of the others."""

from __future__ import annotations

from dataclasses import dataclass

from torchparity.calls import Interest
from torchparity.ops import Kind, Op


@dataclass(frozen=True)
class Coverage:
    """The kinds of calls that are recorded; what others do to memory may have to be told."""

    apis: bool = True
    modules: bool = False
    views: bool = False
    core_only: bool = False

    def includes(self, op: Op) -> bool:
        """Tell whether calls of a function are recorded."""
        if op.kind is Kind.MODULE:
            return self.modules
        if op.kind is Kind.COMPUTES or op.kind is Kind.VIEWS:
            return self.apis and (op.is_core or not self.core_only) and (self.views or op.kind is Kind.COMPUTES)
        return self.apis and op.kind in (Kind.COLLECTIVE, Kind.CUSTOM)

    def interest(self, op: Op) -> Interest:
        """Return what the recorder must be told of a function's calls."""
        if self.includes(op):
            return Interest.CALLS
        if op.kind is Kind.MODULE or (op.kind is Kind.VIEWS and not self.views and not op.exposes):
            return Interest.EFFECTS if op.may_copy and self.apis else Interest.NOTHING
        if op.exposes or op.writes_unversioned or (self.core_only and op.kind is Kind.COMPUTES):
            return Interest.EFFECTS
        if op.writes:  # whoever records no APIs looks at everything again when an optimizer ends
            return Interest.EFFECTS if self.apis else Interest.WRITES
        return Interest.NOTHING
