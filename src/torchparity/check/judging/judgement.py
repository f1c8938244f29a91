"""One row of the details: every metric of a result, the standard it falls under, its status and why."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from torchparity.check.judging.outcome import Status
from torchparity.records import number_to_json

DETAILS_HEADER = (
    "API Name",
    "Bench Dtype",
    "DEVICE Dtype",
    "Shape",
    "cosine similarity",
    "max abs error",
    "double hundredth",
    "double thousandth",
    "double ten-thousandth",
    "bitwise error rate",
    "error balance",
    "RMSE",
    "small-value error share",
    "max relative error",
    "mean relative error",
    "inf/nan error rate",
    "relative error rate",
    "absolute error rate",
    "max ULP error",
    "mean ULP error",
    "share of ULP error above threshold",
    "Status",
    "Message",
    # msprobe's 23 columns end here.
    "standard",
    "standard result",
    "max ULP error of CPU",
    "multiple of CPU error",
)
_EXACT_DECIMALS_FROM = 1e-6  # below, 14 decimals would keep fewer than nine digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Metrics of a result against the reference; None where one has no meaning for the dtype or shape."""

    cosine: float | None = None
    max_abs: float | None = None
    within_hundredth: float | None = None
    within_thousandth: float | None = None
    within_ten_thousandth: float | None = None
    bitwise_error_rate: float | None = None
    error_balance: float | None = None
    rmse: float | None = None
    small_value_error_share: float | None = None
    max_relative: float | None = None
    mean_relative: float | None = None
    nonfinite_error_rate: float | None = None
    relative_error_rate: float | None = None
    absolute_error_rate: float | None = None
    max_ulp: float | None = None
    mean_ulp: float | None = None
    ulp_share: float | None = None

    def as_dict(self) -> dict[str, float | None]:
        """Return the metrics by name, in the order of the details' columns."""
        return {name: getattr(self, name) for name in METRICS}


METRICS = tuple(field.name for field in fields(Metrics))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Status of one result, with everything that led to it."""

    name: str
    status: Status
    message: str = ""
    reference_dtype: str = ""
    device_dtype: str = ""
    shape: tuple[int, ...] | None = None
    metrics: Metrics = Metrics()
    standard: str = ""
    standard_status: Status | None = None
    cpu_max_ulp: float | None = None
    multiple: float | None = None  # of the CPU's own error in the tested dtype

    def row(self) -> list[str]:
        """Return the cells of this row of the details, in the order of `DETAILS_HEADER`."""
        shape = "" if self.shape is None else str(self.shape)
        numbers = self.metrics.as_dict().values()
        beside = (self.cpu_max_ulp, self.multiple)
        return [
            *(self.name, self.reference_dtype, self.device_dtype, shape),
            *map(number_cell, numbers),
            *(str(self.status), self.message, self.standard, str(self.standard_status or "")),
            *map(number_cell, beside),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return everything as strict JSON can hold it."""
        numbers = {**self.metrics.as_dict(), "cpu_max_ulp": self.cpu_max_ulp, "multiple": self.multiple}
        return {
            "name": self.name,
            "status": str(self.status),
            "message": self.message,
            "reference_dtype": self.reference_dtype,
            "device_dtype": self.device_dtype,
            "shape": None if self.shape is None else list(self.shape),
            "standard": self.standard,
            "standard_status": str(self.standard_status) if self.standard_status else None,
            **{key: number_to_json(number) for key, number in numbers.items()},
        }


def skipped(name: str, reason: str) -> Judgement:
    """Return the judgement of a result that was not compared, with the reason why."""
    return Judgement(name=name, status=Status.SKIP, message=reason)


def number_cell(number: float | None) -> str:
    """Return a number with 14 decimals, or with nine digits where it is tiny; nothing for None."""
    if number is None:
        return ""
    if not math.isfinite(number):
        return str(number_to_json(number))
    if number == 0 or abs(number) >= _EXACT_DECIMALS_FROM:
        return f"{number:.14f}"
    return f"{number:.8e}"
