"""The deliberate end of a training: the one exception of ours that the user gets, and only where a listener may ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from torchparity.calls.guard.boundary import Boundary


class EndingBoundary(msgspec.Struct, eq=False):
    """The boundary around what listeners are told of results, where one of them may end the training.

    What they raise stays inside, as ever. What they answer when asked for an ending is raised here, after every
    listener has been told, at the very call of the user's, or in the backward pass.
    """

    boundary: Boundary
    take_ending: Callable[[], Exception | None]

    def run(self, what: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return what `work(*arguments)` returns, or None where it failed; raise the ending that came of it."""
        result = self.boundary.run(what, work, *arguments)
        ending = self.take_ending()
        if ending is not None:
            raise ending
        return result
