"""Says a verdict in one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable

from torchparity.comparing.judging.verdict import Agreement, Finding, Kind
from torchparity.comparing.precision.figures import MASKING
from torchparity.naming import OPTIMIZER, is_module_name
from torchparity.text import counted

_IS_DIVERGENCE = (Kind.OPERATOR, Kind.NONFINITE, Kind.SHAPE)
_MOST_NAMES = 3
_BY_CONTENT = "; the runs tell no data flow, so this is matched by content"


def finding_sentence(finding: Finding, *, by_checksum: bool = False, where: str = "") -> str:
    """Return the sentence that names where the runs part; `where` says step and rank."""
    word = "divergence" if finding.kind in _IS_DIVERGENCE else "difference"
    place = f" in {finding.module}" if finding.module else ""
    lines = f" ({'; '.join(finding.lines)})" if finding.lines else ""
    weaker = "" if finding.is_certain or is_between_modules(finding) else _BY_CONTENT
    clause = _CLAUSES[finding.kind](finding, _off(finding, by_checksum))
    return f"{where}First {word}: {finding.record}{place}: {clause}{_repeats(finding)}{weaker}{lines}."


def is_between_modules(finding: Finding) -> bool:
    """Tell whether something parts the runs between two modules, where the modules alone are recorded."""
    return finding.kind is Kind.UNRECORDED and not finding.is_certain and is_module_name(finding.record)


def agreement_sentence(agreement: Agreement, left_out: str, *, is_all_read: bool = True) -> str:
    """Return the sentence for runs without a finding; `is_all_read` is false where data could not be read."""
    apart, other = agreement.apart_from, " other" if agreement.apart_from else ""
    read = "" if is_all_read else " that could be read"
    if not agreement.is_identical and (agreement.item or agreement.remainder_item or not apart):
        return f"The runs agree within rounding{apart}: {largest_deviation(agreement)}{left_out}."
    if not agreement.compares_every_bit:
        return f"The runs agree{apart}: every{other} statistic{read} is the same{left_out}."
    said = "agree" if apart or read else "are identical"
    return f"The runs {said}{apart}: every{other} record{read} has the same bits{left_out}."


def largest_deviation(agreement: Agreement) -> str:
    """Return in a clause how far the runs are apart, and where."""
    remainder = f"{amount_text(agreement.remainder)} where little but rounding is left, {agreement.remainder_item}"
    if not agreement.item:
        told = "only records differ that calls of one run alone, or in another order, explain"
        return f"the largest deviation is {remainder}" if agreement.remainder_item else told
    largest = f"the largest deviation is {amount_text(agreement.largest)}, {agreement.item}"
    return f"{largest}, and {remainder}" if agreement.remainder_item else largest


def amount_text(value: float) -> str:
    """Return a deviation in words."""
    return f"{value:.3g} relative"


def off_text(deviation: float, beyond_numbers: str) -> str:
    """Return how far an item is off, to go on after its name; `beyond_numbers` says what no number tells."""
    return beyond_numbers if math.isinf(deviation) and beyond_numbers else f"is off by {amount_text(deviation)}"


def _off(finding: Finding, by_checksum: bool) -> str:
    return "has a different checksum" if by_checksum else off_text(finding.deviation, finding.beyond_numbers)


def _inputs(finding: Finding) -> str:
    if math.isinf(finding.input_deviation):
        return "inputs differ"
    if 0 < finding.input_deviation < 1 / MASKING:  # relative to a mask
        return "inputs within rounding"
    return "inputs equal" if finding.input_deviation == 0 else f"inputs within {amount_text(finding.input_deviation)}"


def _repeats(finding: Finding) -> str:
    """Return how many other places show the same fact, with the names of some if they are parameters."""
    places = finding.repeated_in
    if not places:
        return ""
    if finding.kind is not Kind.WEIGHTS:
        return f"; so in {counted(len(places), 'more call')}"
    more = ", …" if len(places) > _MOST_NAMES else ""
    return f"; so do {len(places)} more: {', '.join(places[:_MOST_NAMES])}{more}"


def _operator(finding: Finding, off: str) -> str:
    because = f" ({finding.expected_because})" if finding.expected_because else ""
    explains = f", where rounding explains {finding.expected:.2g}{because}" if finding.expected else ""
    why = f"; {finding.explanation}" if finding.explanation else ""
    return f"{_inputs(finding)}, {finding.item} {off.replace('is off by', 'off by', 1)}{explains}{why}"


def _argument(finding: Finding, off: str) -> str:
    mine, other = finding.values or ("", "")
    if other == "nothing":
        called = f"called with {finding.item}={mine}, which the baseline does not pass"
    elif mine == "nothing":
        called = f"called without {finding.item}, where the baseline passes {other}"
    else:
        called = f"called with {finding.item}={mine}, the baseline with {other}"
    return f"{called}, {finding.explanation or 'and so its output differs'}"


def _weights(finding: Finding, off: str) -> str:
    source = f" {finding.sources[0]}" if finding.sources else ""
    return (
        f"the weights differ already:{source} ({finding.item}) {off}"
        if source
        else (f"the weights differ already; {finding.item} {off}")
    )


def _data(finding: Finding, off: str) -> str:
    what = "its state differs" if finding.module == OPTIMIZER else "the data differ"
    return f"{what} already; {finding.item}, which comes from outside, {off}"


def _random(finding: Finding, off: str) -> str:
    return f"it drew other random numbers ({_inputs(finding)}, {finding.item} {off}); set the same seed in both runs"


def _uninitialised(finding: Finding, off: str) -> str:
    return f"it reads memory that nobody has written, and {finding.item} {off}"


def _missing(finding: Finding, off: str) -> str:
    return f"a gradient is missing: {finding.explanation}"


def _shape(finding: Finding, off: str) -> str:
    if finding.sources:
        return f"{finding.item}, {finding.sources[0]}, has another shape{_values(finding)}"
    return f"{_inputs(finding)}, {finding.item} has another shape{_values(finding)}"


def _nonfinite(finding: Finding, off: str) -> str:
    why = f"; {finding.explanation}" if finding.explanation else ""
    return f"{_inputs(finding)}, {finding.item} {off}{_values(finding)}{why}"


def _call(finding: Finding, off: str) -> str:
    if finding.values:
        mine, other = finding.values
        return f"{finding.item} comes from {mine}, in the baseline from {other}; it {off}"
    if finding.is_call_alone:
        if finding.sources:
            writes = f"writes {finding.sources[0]}; no record reads it afterwards"
            return f"only the candidate makes this call, which {writes}"
        return f"only the candidate makes this call; {finding.explanation}, which receives its result, {off}"
    if finding.explanation:
        return finding.explanation
    made_by = finding.sources[0] if finding.sources else finding.partner
    if finding.partner == finding.record:  # numbers of calls shift behind one that the other run does not make
        made_by = f"the baseline's {made_by}, which the candidate does not make"
    else:
        made_by = f"{made_by}, which only {finding.partner_run} has"
    if finding.item.startswith("output"):
        return f"{finding.item} {off}; {made_by}, was the last to touch it"
    return f"its input differs after {made_by}; {finding.item} {off}"


def _unrecorded(finding: Finding, off: str) -> str:
    if is_between_modules(finding):
        return f"{finding.item} {off} although the modules before it agree: calls between them are not recorded"
    makers = (
        f"{', '.join(finding.sources[:3])}, which made it, agrees"
        if finding.sources
        else ("all recorded before it agrees")
    )
    if finding.values:
        off = f"is {finding.values[0]}, in the baseline {finding.values[1]},"
    return f"{finding.item} {off} although {makers}, so something between is not recorded"


def _values(finding: Finding) -> str:
    return f" ({finding.values[0]} against {finding.values[1]})" if finding.values else ""


def _unknown(finding: Finding, off: str) -> str:
    if finding.explanation:
        return f"{finding.item} {off} {finding.explanation}: cannot tell whether anything else is wrong"
    if finding.expected:
        made_by = f"{finding.sources[0]}, which made it," if finding.sources else "what it received"
        explains = f"{finding.item} {off}, where {made_by} explains {finding.expected:.2g} at most"
        return f"{explains}: cannot tell who is to blame"
    return f"{finding.item} {off}, and nothing that was recorded tells why: cannot tell who is to blame"


def _plain(finding: Finding, off: str) -> str:
    return f"{finding.explanation or finding.item} {off}"


_CLAUSES: dict[Kind, Callable[[Finding, str], str]] = {
    **dict.fromkeys(Kind, _plain),
    Kind.OPERATOR: _operator,
    Kind.ARGUMENT: _argument,
    Kind.WEIGHTS: _weights,
    Kind.DATA: _data,
    Kind.RANDOM: _random,
    Kind.UNINITIALISED: _uninitialised,
    Kind.MISSING_GRADIENT: _missing,
    Kind.SHAPE: _shape,
    Kind.NONFINITE: _nonfinite,
    Kind.CALL: _call,
    Kind.UNRECORDED: _unrecorded,
    Kind.UNKNOWN: _unknown,
}
