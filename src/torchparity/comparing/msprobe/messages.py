"""msprobe's sentences about one item, for the column Err_message."""

from __future__ import annotations

from torchparity.comparing.measuring.item_comparison import ItemComparison, NotCompared, Reason, StatisticsDifference
from torchparity.comparing.measuring.mode import Mode
from torchparity.comparing.msprobe.columns import ABSENT
from torchparity.comparing.msprobe.metrics import shape_of
from torchparity.comparing.msprobe.verdicts import RELATIVE, WARNING, requires_grad_agrees
from torchparity.comparing.pairing.items import Side
from torchparity.records import PairMetrics, TensorLeaf

_BY_REASON = {
    Reason.CANDIDATE_HAS_NO_VALUES: "NPU does not have data file.",
    Reason.BASELINE_HAS_NO_VALUES: "Bench does not have data file.",
    Reason.OTHER_SHAPE: "Shape of NPU and bench Tensor do not match. Skipped.",
    Reason.EMPTY: "This is empty data, can not compare.",
}
_NO_PARTNER = "No bench data matched."
_ZERO_DIMENSIONS = (
    "This is type of 0-d tensor, can not calculate 'Cosine', 'EucDist', "
    "'One Thousandth Err Ratio' and 'Five Thousandths Err Ratio'."
)


def has_nothing_to_say(comparison: ItemComparison) -> bool:
    """Tell at once of most statistics that they have neither a verdict nor a message; False decides nothing."""
    outcome, pair = comparison.outcome, comparison.pair
    if not isinstance(outcome, StatisticsDifference) or pair.is_fuzzy or not requires_grad_agrees(pair):
        return False
    largest, smallest, mean, norm = outcome.relative
    if largest is None or smallest is None or mean is None or norm is None:
        return False
    return largest <= RELATIVE and smallest <= RELATIVE and mean <= RELATIVE and norm <= RELATIVE


def messages_of(comparison: ItemComparison, mode: Mode, verdict: str) -> tuple[str, ...]:
    """Return what msprobe says about an item, in its order."""
    messages: tuple[str, ...] = ()
    if mode == "values":
        messages = _about_values(comparison)
    elif verdict == WARNING:
        messages = ("Need double check api accuracy.",)
    elif verdict == ABSENT and mode == "statistics":
        messages = (_NO_PARTNER,)
    pair = comparison.pair
    if not requires_grad_agrees(pair):
        messages += ("Requires_grad inconsistent.",)
    if pair.is_fuzzy and pair.candidate and pair.baseline and pair.candidate.name != pair.baseline.name:
        messages += ("Fuzzy matching data, the comparison accuracy may be affected.",)
    return messages


def _about_values(comparison: ItemComparison) -> tuple[str, ...]:
    outcome = comparison.outcome
    if isinstance(outcome, PairMetrics):
        return (*_about_metrics(outcome, shape_of(comparison)), *_about_dtypes(comparison))
    if not isinstance(outcome, NotCompared):
        return ()
    if outcome.reason is Reason.NO_PARTNER:
        side = comparison.candidate or comparison.baseline
        if side is not None and side.has_values:
            return ("Bench api/module unmatched.",)
        return (_NO_PARTNER, _BY_REASON[Reason.CANDIDATE_HAS_NO_VALUES])
    if outcome.reason is Reason.UNREADABLE:
        files = [_file(side) for side in (comparison.candidate, comparison.baseline)]
        return (f"Dump file: {files} not found or read failed. ({outcome.detail})",)
    return (_BY_REASON[outcome.reason],)


def _about_metrics(metrics: PairMetrics, shape: tuple[int, ...]) -> tuple[str, ...]:
    if metrics.mismatched:
        return ("The Position of inf or nan in NPU and bench Tensor do not match.",)
    messages: tuple[str, ...] = ()
    if metrics.cosine is None:
        side = "npu" if metrics.candidate_is_zero else "Bench"
        messages = (f"Cannot compare by Cosine Similarity, All the data is Zero in {side} dump data.",)
    if not shape:
        return (*messages, _ZERO_DIMENSIONS)
    return (*messages, "This is a 1-d tensor of length 1.") if shape == (1,) else messages


def _about_dtypes(comparison: ItemComparison) -> tuple[str, ...]:
    sides = (comparison.candidate, comparison.baseline)
    dtypes = {side.leaf.dtype for side in sides if side is not None and isinstance(side.leaf, TensorLeaf)}
    return ("Dtype of NPU and bench Tensor do not match.",) if len(dtypes) > 1 else ()


def _file(side: Side | None) -> str | None:
    return side.leaf.data_name if side is not None and isinstance(side.leaf, TensorLeaf) else None
