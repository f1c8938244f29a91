"""The comparison of two checks: each result by its standard, then each call by its results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from torchparity.check.judging.float_formats import float_format
from torchparity.check.judging.judgement import Metrics
from torchparity.check.judging.limits import has_standard
from torchparity.check.judging.outcome import Status, join
from torchparity.check.judging.standard_rules import StandardResult, apply_standard
from torchparity.check.judging.standards import Standard, level_of, standard_of
from torchparity.check.two_checks.details_file import NO_PLACE, DetailsRow, Place, read_details
from torchparity.check.two_checks.tables import CallCompared, ResultCompared, write_tables
from torchparity.errors import ConfigError

_SKIPPED = str(Status.SKIP).lower()
# What a standard cannot do without; msprobe leaves the metrics of other standards blank.
_NEEDED = {
    Standard.BINARY: "bitwise_error_rate",
    Standard.ABSOLUTE: "relative_error_rate",
    Standard.ULP: "ulp_share",
    Standard.THOUSANDTH: "within_thousandth",
    Standard.BENCHMARK: "rmse",
}
_EXACT = {
    Standard.BINARY: ("bitwise_error_rate",),
    Standard.ABSOLUTE: ("relative_error_rate", "absolute_error_rate"),
}


@dataclass(frozen=True, slots=True)
class ChecksCompared:
    """The results of comparing two checks."""

    results: list[ResultCompared]
    calls: list[CallCompared]

    def write(self, folder: Path, formats: Iterable[str] = ("csv",)) -> list[Path]:
        """Write api_precision_compare_result and _details with the time in their names; return the files."""
        return write_tables(folder, self.calls, self.results, formats)


def compare_checks(candidate: Path, baseline: Path) -> ChecksCompared:
    """Judge the candidate's details beside the baseline's; raise `ConfigError` where they share no result."""
    tested, beside = read_details(candidate), read_details(baseline)
    by_name, by_place = {row.name: row for row in reversed(beside)}, {(row.place, row.name): row for row in beside}
    if tested and not any(row.name in by_name for row in tested):
        raise ConfigError(
            f"{candidate} and {baseline} share no result: the first has {tested[0].name!r}, the second "
            f"{next((row.name for row in beside), 'none at all')!r}; they must come from checks of the same calls."
        )
    if any(row.place == NO_PLACE for row in (*tested[:1], *beside[:1])):
        pairs = [(row, by_name.get(row.name)) for row in tested]
    else:
        pairs = [(row, by_place.get((row.place, row.name))) for row in tested]
    results = [_compare(row, other) for row, other in pairs]
    return ChecksCompared(results, _calls(tested, results))


def _compare(tested: DetailsRow, baseline: DetailsRow | None) -> ResultCompared:
    unjudged = ResultCompared(tested.name, tested.place, Status.SKIP, None, StandardResult(Status.SKIP), "")
    if tested.status == _SKIPPED:
        return replace(unjudged, message="The candidate's check skipped it.")
    form = float_format(tested.dtype)
    if form is not None and not has_standard(form.dtype):
        return replace(unjudged, message=f"There is no standard for {tested.dtype}.")
    other = None if baseline is None or baseline.status == _SKIPPED else baseline
    said = "" if other else "The baseline's check has no such result."
    if other is not None and other.dtype != tested.dtype:
        said = f"The baseline's dtype is {other.dtype}."
    standard = _usable(tested, standard_of(tested.record.family) if form else Standard.BINARY)
    is_half, level = form is not None and form.is_half, level_of(tested.record.family)
    if standard is None:
        return replace(unjudged, message="The candidate's details lack every metric of its standard.")
    of_baseline: Metrics | None = None if other is None else other.metrics
    is_gradient = form is not None and tested.record.direction == "backward"
    if is_gradient and of_baseline is not None and _is_broken(standard, of_baseline):
        said = f"The baseline does not meet {standard} either, so the benchmark decides. {said}".rstrip()
        standard = Standard.BENCHMARK
    result = apply_standard(standard, tested.metrics, of_baseline, is_half=is_half, level=level)
    if result is None:
        return replace(unjudged, message=said)
    return ResultCompared(tested.name, tested.place, result.status, standard, result, said)


def _usable(row: DetailsRow, listed: Standard) -> Standard | None:
    """Return the standard of an API, or the benchmark where the file has the metrics of that one alone."""
    for standard in (listed, Standard.BENCHMARK):
        if getattr(row.metrics, _NEEDED[standard]) is not None:
            return standard
    return None


def _is_broken(standard: Standard, of_baseline: Metrics) -> bool:
    """Tell whether a device that is trusted breaks a rule without margin, as gradients that are sums do."""
    rates = [getattr(of_baseline, name) for name in _EXACT.get(standard, ())]
    return of_baseline.rmse is not None and any(rate is not None and rate > 0 for rate in rates)


def _calls(rows: Iterable[DetailsRow], results: Iterable[ResultCompared]) -> list[CallCompared]:
    by_call: dict[tuple[Place, str], list[tuple[DetailsRow, ResultCompared]]] = {}
    for row, result in zip(rows, results, strict=True):
        by_call.setdefault((row.place, row.call), []).append((row, result))
    return [_call(name, place, pairs) for (place, name), pairs in by_call.items()]


def _call(name: str, place: Place, pairs: list[tuple[DetailsRow, ResultCompared]]) -> CallCompared:
    forward = join(result.status for row, result in pairs if row.record.direction == "forward")
    backward = join(result.status for row, result in pairs if row.record.direction == "backward")
    said = dict.fromkeys(result.message for _, result in pairs if result.message)
    return CallCompared(name, place, forward, backward, " ".join(said))
