"""Says in one sentence where two runs part, or that they agree and what could not be compared."""

from __future__ import annotations

import math

from torchparity.comparing.judging.divergence import Divergence
from torchparity.naming import OPTIMIZER
from torchparity.text import counted


def agreement(*, has_compared: bool, paired: int, alone: int, parts: int, lost: int) -> str:
    """Return the one sentence for runs that part nowhere: whether they agree, and what nobody could compare."""
    if not paired:
        return "The runs cannot be compared: they have no record in common."
    unread = f"{counted(lost, 'row')} of which one run has nothing that can be read"
    if not has_compared:
        why = f"there are {unread}" if lost else "their common records hold nothing to compare"
        return f"The runs cannot be compared: {why}."
    left = [f"{counted(alone, 'record')} of one run alone"] if alone else []
    left += [f"{parts} {'ranks or steps' if parts > 1 else 'rank or step'} of one run alone"] if parts else []
    left += [unread] if lost else []
    rest = f"; {' and '.join(left)} could not be compared" if left else ""
    return f"The runs agree: no record differs by more than rounding{rest}."


def headline(
    divergence: Divergence, parent: str | None, frame: str | None, *, by_checksum: bool, is_later: bool = False
) -> str:
    """Return the one sentence that names where the runs part; `is_later`: an earlier step agrees."""
    off = "another checksum" if by_checksum else f"off by {amount_text(divergence.deviation)}"
    place = f" in {parent}" if parent else ""
    item = divergence.item.removeprefix(f"{divergence.record}.")
    line = f" ({frame})" if frame else ""
    if divergence.kind == "operator":
        received = "equal" if divergence.input_deviation == 0 else f"within {amount_text(divergence.input_deviation)}"
        return f"First divergence: {divergence.record}{place}: inputs {received}, {item} {off}{line}."
    if divergence.values is not None:
        mine, other = divergence.values
        called = f"called with {item}={mine}, the baseline with {other}"
        shown = "and so its output differs" if divergence.is_shown else "which shows in later records alone"
        return f"First difference: {divergence.record}{place}: {called}, {shown}{line}."
    since = "already"
    if is_later and (divergence.kind == "weights" or parent == OPTIMIZER):
        since = "although the step before agrees, which an optimizer can make of rounding"
    words = {
        "weights": f"the weights differ {since}",
        "data": f"{'its state differs' if parent == OPTIMIZER else 'the data differ'} {since}",
        "unpaired": f"its input differs after {divergence.unpaired}, which only one run has",
        "gap": "its input differs although all recorded before it agrees, so something between is not recorded",
    }
    return f"First difference: {divergence.record}{place}: {words[divergence.kind]}; {item} {off}{line}."


def amount_text(value: float) -> str:
    """Return a deviation in words."""
    return "nan, inf or another shape" if math.isinf(value) else f"{value:.3g} relative"
