"""The two tables of a comparison of checks, with msprobe's columns in English."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl

from torchparity import plugins
from torchparity.check.judging.judgement import number_cell
from torchparity.check.judging.outcome import Status
from torchparity.check.judging.standard_rules import StandardResult
from torchparity.check.judging.standards import Standard
from torchparity.check.two_checks.details_file import Place
from torchparity.records import Table
from torchparity.report.formats import TableFormat

RESULT_COLUMNS = ("API Name", "Forward Test Success", "Backward Test Success", "Message")
DETAILS_COLUMNS = (
    "API Name",
    *("small-value error ratio", "small-value error result"),
    *("RMSE ratio", "RMSE result"),
    *("max relative error ratio", "max relative error result"),
    *("mean relative error ratio", "mean relative error result"),
    *("error balance ratio", "error balance result"),
    *("inf/nan error rate", "inf/nan result"),
    *("relative error rate", "relative error result"),
    *("absolute error rate", "absolute error result"),
    *("bitwise error rate", "bitwise result"),
    *("mean ULP error", "share of ULP error above threshold", "ULP share ratio", "ULP result"),
    *("double thousandth", "double thousandth result"),
    *("result", "algorithm", "Message"),
)
PLACE_COLUMNS = ("Step", "Rank")  # last, and only of several steps or ranks
_WITH_RESULT = (
    *("small_value_error_share", "rmse", "max_relative", "mean_relative", "error_balance"),
    *("nonfinite_error_rate", "relative_error_rate", "absolute_error_rate", "bitwise_error_rate"),
)
_COLOURS = {Status.ERROR: "red", Status.WARNING: "yellow"}
_STEM = "api_precision_compare"


@dataclass(frozen=True, slots=True)
class ResultCompared:
    """One result of the candidate's check, judged beside the baseline's."""

    name: str
    place: Place
    status: Status
    standard: Standard | None
    result: StandardResult
    message: str

    def cells(self) -> list[str]:
        """Return the cells of this row, as `DETAILS_COLUMNS` and `PLACE_COLUMNS` name them."""
        cells = [self.name]
        for name in _WITH_RESULT:
            cells += self._pair(name)
        cells += [self._pair("mean_ulp")[0], self._pair("ulp_share")[0], *self._pair("ulp_share_ratio")]
        cells += self._pair("within_thousandth")
        return [*cells, str(self.status), str(self.standard or ""), self.message, *self.place]

    def _pair(self, name: str) -> list[str]:
        judged = self.result.metrics.get(name)
        return ["", ""] if judged is None else [number_cell(judged.number), str(judged.status or "")]


@dataclass(frozen=True, slots=True)
class CallCompared:
    """One call: the worst of its results in each direction."""

    name: str
    place: Place
    forward: Status | None
    backward: Status | None
    message: str

    def cells(self) -> list[str]:
        """Return the cells of this row, as `RESULT_COLUMNS` and `PLACE_COLUMNS` name them."""
        return [self.name, str(self.forward or ""), str(self.backward or ""), self.message, *self.place]


def write_tables(
    folder: Path, calls: Sequence[CallCompared], results: Sequence[ResultCompared], formats: Iterable[str]
) -> list[Path]:
    """Write both tables in each format; return the files."""
    time = datetime.now().strftime("%Y%m%d%H%M%S")
    worst = [_COLOURS.get(call.forward or Status.PASS) or _COLOURS.get(call.backward or Status.PASS) for call in calls]
    places = PLACE_COLUMNS if len({call.place for call in calls}) > 1 else ()
    tables = {
        f"{_STEM}_result_{time}": _table((*RESULT_COLUMNS, *places), [call.cells() for call in calls], worst),
        f"{_STEM}_details_{time}": _table(
            (*DETAILS_COLUMNS, *places),
            [result.cells() for result in results],
            [_COLOURS.get(result.status) for result in results],
        ),
    }
    written: list[Path] = []
    for name in formats:
        plugin: TableFormat = plugins.load("report.formats", name)
        for stem, table in tables.items():
            written += plugin.write(table, folder / f"{stem}{plugin.suffix}").files
    return written


def _table(columns: Sequence[str], rows: list[list[str]], colours: list[str | None]) -> Table:
    frame = pl.DataFrame(
        [[row[place] or None for row in rows] for place in range(len(columns))],
        schema=dict.fromkeys(columns, pl.String),
    )
    words = ("API Name", "Message", "algorithm", "result")
    numeric = frozenset(name for name in columns if not name.endswith(words))
    return Table(frame=frame, title=_STEM, numeric=numeric, colours=colours if any(colours) else [])
