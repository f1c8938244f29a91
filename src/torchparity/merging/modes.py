"""The kinds of results, by what was compared, and the metrics that each has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from torchparity.errors import ConfigError, nearest

Mode = Literal["statistics", "values", "checksums"]
NAME, CANDIDATE_MAX, BASELINE_MAX = "NPU Name", "NPU max", "Bench max"
REQUIRES_GRAD = "Requires_grad Consistent"
METRICS: dict[Mode, tuple[str, ...]] = {
    "statistics": (
        *("Max diff", "Min diff", "Mean diff", "L2norm diff"),
        *("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr", REQUIRES_GRAD),
    ),
    "values": (
        *("Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr"),
        *("One Thousandth Err Ratio", "Five Thousandths Err Ratio", REQUIRES_GRAD),
    ),
    "checksums": (),
}
_SIGNS: dict[str, Mode] = {"Cosine": "values", "Max diff": "statistics", "NPU MD5": "checksums"}
KEPT = frozenset((NAME, CANDIDATE_MAX, BASELINE_MAX, *_SIGNS, *METRICS["statistics"], *METRICS["values"]))


def mode_of(columns: Collection[str]) -> Mode | None:
    """Return the mode of a table with these columns; None if it is no result of a comparison."""
    mode = next((mode for sign, mode in _SIGNS.items() if sign in columns), None)
    if mode is None or not {NAME, *METRICS[mode]} <= {*columns}:
        return None
    return mode if mode == "checksums" or {CANDIDATE_MAX, BASELINE_MAX} <= {*columns} else None


def metrics_asked(asked: Sequence[str], mode: Mode) -> Sequence[str]:
    """Return the metrics that are asked for, by default all of the mode; raise `ConfigError` for one it has not."""
    own = METRICS[mode]
    for metric in asked:
        if metric not in own:
            is_of_another = any(metric in names for names in METRICS.values())
            hint = " That is a metric of another kind of results." if is_of_another else nearest(metric, own)
            raise ConfigError(
                f"compare_index asks for {metric[:60]!r}, which comparisons of {mode} do not have.{hint} "
                f"They have: {', '.join(own)}."
            )
    return list(dict.fromkeys(asked)) or own
