"""Says in one sentence where two runs part, or that they agree and what could not be compared."""

from __future__ import annotations

import math

from torchparity.comparing.judging.divergence import Divergence
from torchparity.naming import OPTIMIZER
from torchparity.text import counted


def no_divergence(
    *, has_compared: bool, paired: int, unpaired_records: int, unpaired_parts: int, unreadable_rows: int
) -> str:
    """Return the one sentence for runs without a divergence: whether they agree, and what could not be compared."""
    if not paired:
        return "The runs cannot be compared: they have no record in common."
    unread = f"{counted(unreadable_rows, 'row')} whose data is missing or unreadable in one run"
    if not has_compared:
        why = f"there are {unread}" if unreadable_rows else "their common records hold nothing to compare"
        return f"The runs cannot be compared: {why}."
    left_out = [f"{counted(unpaired_records, 'record')} of one run alone"] if unpaired_records else []
    if unpaired_parts:
        left_out.append(
            f"{unpaired_parts} {'ranks or steps' if unpaired_parts > 1 else 'rank or step'} of one run alone"
        )
    left_out += [unread] if unreadable_rows else []
    rest = f"; {' and '.join(left_out)} could not be compared" if left_out else ""
    return f"The runs agree: no record differs by more than rounding{rest}."


def headline(
    divergence: Divergence, parent: str | None, frame: str | None, *, by_checksum: bool, is_later: bool = False
) -> str:
    """Return the one sentence that names where the runs part; `is_later`: an earlier step agrees."""
    off = "has a different checksum" if by_checksum else f"off by {amount_text(divergence.deviation)}"
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
        since = "although the step before agrees; an optimizer can enlarge rounding errors to this size"
    words = {
        "weights": f"the weights differ {since}",
        "data": f"{'its state differs' if parent == OPTIMIZER else 'the data differ'} {since}",
        "unpaired": f"its input differs after {divergence.unpaired}, which only one run has",
        "gap": "its input differs although all recorded before it agrees, so something between is not recorded",
    }
    return f"First difference: {divergence.record}{place}: {words[divergence.kind]}; {item} {off}{line}."


def amount_text(value: float) -> str:
    """Return a deviation in words."""
    return "nan, inf or a different shape" if math.isinf(value) else f"{value:.3g} relative"
