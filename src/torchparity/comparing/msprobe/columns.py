"""The columns of a comparison table and the words that stand among its numbers, as msprobe has them."""

from __future__ import annotations

from torchparity.comparing.measuring.mode import Mode

UNSUPPORTED, UNMATCHED, ABSENT = "unsupported", "shape unmatched", "N/A"
_COMMON = (
    "NPU Name",
    "Bench Name",
    "NPU Dtype",
    "Bench Dtype",
    "NPU Tensor Shape",
    "Bench Tensor Shape",
    "NPU Requires_grad",
    "Bench Requires_grad",
)
METRICS = (
    "Cosine",
    "EucDist",
    "MaxAbsErr",
    "MaxRelativeErr",
    "One Thousandth Err Ratio",
    "Five Thousandths Err Ratio",
)
DIFFERENCES = ("Max diff", "Min diff", "Mean diff", "L2norm diff")
RELATIVE = ("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr")
_VALUES = tuple(f"{side} {value}" for side in ("NPU", "Bench") for value in ("max", "min", "mean", "l2norm"))
NUMERIC = frozenset((*METRICS, *DIFFERENCES, *_VALUES))  # words stand among the numbers
STACK = "NPU_Stack_Info"
_BY_MODE: dict[Mode, tuple[str, ...]] = {
    "values": (*_COMMON, *METRICS, *_VALUES, "Requires_grad Consistent", "Accuracy Reached or Not", "Err_message"),
    "statistics": (*_COMMON, *DIFFERENCES, *RELATIVE, *_VALUES, "Requires_grad Consistent", "Result", "Err_message"),
    "checksums": (*_COMMON, "NPU MD5", "BENCH MD5", "Requires_grad Consistent", "Result"),
}


def columns_of(mode: Mode, *, stacks: bool) -> tuple[str, ...]:
    """Return the header of a mode; without stacks that column is absent."""
    return (*_BY_MODE[mode], *((STACK,) if stacks else ()), *(("Data_name",) if mode == "values" else ()))
