"""The audience of a function, and the attention of a dispatcher."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import msgspec

from torchparity.calls.listener import Interest, Listener
from torchparity.ops import Op


class Attention(Enum):
    """The attention that a dispatcher pays to the calls its interceptors see."""

    OFF = auto()
    COUNTING = auto()  # calls are numbered and no more: the numbers of others do not depend on who listens
    LISTENING = auto()


class Audience(msgspec.Struct, frozen=True, eq=False):
    """A function, and who wants to know what of its calls; looked up once per function."""

    op: Op
    interest: Interest  # the strongest of any listener
    listeners: tuple[Listener, ...]  # those that are told of the calls themselves


def audience_of(op: Op, listeners: Sequence[Listener], interests: Sequence[Interest]) -> Audience:
    """Return the audience of a function, from what each listener wants to know of its calls."""
    strongest = max(interests, key=lambda interest: interest.value, default=Interest.NOTHING)
    pairs = zip(listeners, interests, strict=True)
    return Audience(op, strongest, tuple(each for each, interest in pairs if interest is Interest.CALLS))
