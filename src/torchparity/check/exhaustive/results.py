"""The result of one function over all inputs of a dtype."""

from __future__ import annotations

from dataclasses import dataclass

from torchparity.check.judging import Status

COLUMNS = (
    "function",
    "dtype",
    "status",
    "worst ULP",
    "mean ULP",
    "worst input",
    "result there",
    "exact there",
    "correctly rounded",
    "misplaced nan or inf",
    "worst ULP of CPU",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExhaustiveResult:
    """The error of a function over all inputs of a dtype; only its names and a reason where it cannot run."""

    function: str
    dtype: str
    status: Status
    reason: str = ""
    max_ulp: float | None = None
    mean_ulp: float | None = None
    worst_input: float | None = None
    worst_result: float | None = None
    worst_exact: float | None = None
    correctly_rounded: float | None = None  # share of the inputs
    misplaced: int | None = None  # results that are nan or inf where the exact one is not, or the other way round
    first_misplaced: float | None = None  # the input of the first of them
    cpu_max_ulp: float | None = None

    def cells(self) -> list[str]:
        """Return the cells of this row, as `COLUMNS` names them; a reason stands in the place of the numbers."""
        names = [self.function, self.dtype.removeprefix("torch."), str(self.status)]
        if self.reason:
            return [*names, self.reason, *[""] * (len(COLUMNS) - len(names) - 1)]
        misplaced = f"{self.misplaced}" + (f", first at {self.first_misplaced:.6g}" if self.misplaced else "")
        return [
            *names,
            *(_short(number) for number in (self.max_ulp, self.mean_ulp)),
            *(_short(number) for number in (self.worst_input, self.worst_result, self.worst_exact)),
            "" if self.correctly_rounded is None else f"{100 * self.correctly_rounded:.2f} %",
            misplaced,
            _short(self.cpu_max_ulp),
        ]


def _short(number: float | None) -> str:
    return "" if number is None else f"{number:.4g}"
