"""The rows of all ranks side by side: for each metric a table with a column per rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import polars as pl

from torchparity.errors import nearest
from torchparity.merging.modes import BASELINE_MAX, CANDIDATE_MAX, NAME, REQUIRES_GRAD
from torchparity.naming import call_spellings

_NO_NUMBER = ("n/a", "unsupported", "nan")
_SMALLER_IS_WORSE = ("Cosine", "One Thousandth Err Ratio", "Five Thousandths Err Ratio")
WORST, WORST_RANK = "worst", "worst rank"


class RankRows(msgspec.Struct, frozen=True):
    """The rows of one rank that are merged, in the order of the APIs and then of its table.

    `column` is the name of the rank's column, `missing` are the APIs that it has no rows of, each with a hint at the
    nearest name.
    """

    column: str
    rows: pl.DataFrame
    missing: dict[str, str]


def rows_of_rank(column: str, table: pl.DataFrame, apis: Sequence[str], metrics: Sequence[str]) -> RankRows:
    """Return the rows whose names begin with one of the APIs; a row that two of them name is the first's."""
    named = table.unique(NAME, keep="first", maintain_order=True).with_row_index("place")
    chosen = [named.filter(_begins(named[NAME], api))["place"] for api in apis]
    places = pl.concat(chosen).unique(maintain_order=True)
    missing = {
        api: _nearest_beginning(api, named[NAME]) for api, hits in zip(apis, chosen, strict=True) if hits.is_empty()
    }
    return RankRows(column, named[places].select(NAME, *map(_shown, metrics)), missing)


def merged_sheets(
    ranks: Sequence[RankRows], metrics: Sequence[str], *, worst: bool
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield each metric and its table.

    Rows are those of the first rank in its order; what it has not follows at the end, as the next ranks have it.
    A rank that has no such row has a blank cell.
    """
    order = list(dict.fromkeys(name for rank in ranks for name in rank.rows[NAME]))
    places = [_places(rank.rows, order) for rank in ranks]
    for metric in metrics:
        columns = {NAME: pl.Series(order, dtype=pl.String)}
        for rank, where in zip(ranks, places, strict=True):
            columns[rank.column] = _cells(rank.rows[metric], where)
        if worst and metric != REQUIRES_GRAD:
            columns |= _worst(columns, metric)
        yield metric, pl.DataFrame(columns)


def _begins(names: pl.Series, api: str) -> pl.Series:
    """Tell which names begin with an API, part by part: `all_red` is no beginning of `all_reduce`."""
    hits = names == api
    for spelling in call_spellings(api):
        hits = hits | names.str.starts_with(f"{spelling}.")
    return hits.fill_null(False)


def _shown(metric: str) -> pl.Expr:
    """Return a metric as it is shown: where it is no number, the largest values of both sides."""
    largest = pl.format("NPU:{}  Bench:{}", *(pl.col(name).fill_null("N/A") for name in (CANDIDATE_MAX, BASELINE_MAX)))
    is_none = pl.col(metric).str.to_lowercase().is_in(_NO_NUMBER)
    return pl.when(is_none).then(largest).otherwise(pl.col(metric)).alias(metric)


def _places(rows: pl.DataFrame, order: Sequence[str]) -> list[int | None]:
    place_of: Mapping[str, int] = {name: place for place, name in enumerate(rows[NAME])}
    return [place_of.get(name) for name in order]


def _cells(column: pl.Series, places: Sequence[int | None]) -> pl.Series:
    cells = column.to_list()
    return pl.Series([None if place is None else cells[place] for place in places], dtype=pl.String)


def _worst(columns: Mapping[str, pl.Series], metric: str) -> dict[str, pl.Series]:
    """Return the worst cell of each row that is a number, and the rank that has it."""
    ranks = [name for name in columns if name != NAME]
    numbers = [columns[name].str.strip_suffix("%").cast(pl.Float64, strict=False).to_list() for name in ranks]
    texts = [columns[name].to_list() for name in ranks]
    cells: list[str | None] = []
    where: list[str | None] = []
    for row in range(len(columns[NAME])):
        known = [(number[row], place) for place, number in enumerate(numbers) if number[row] is not None]
        if not known:
            cells.append(None)
            where.append(None)
            continue
        _, place = min(known, key=lambda pair: pair[0] if metric in _SMALLER_IS_WORSE else -abs(pair[0]))
        cells.append(texts[place][row])
        where.append(ranks[place])
    return {WORST: pl.Series(cells, dtype=pl.String), WORST_RANK: pl.Series(where, dtype=pl.String)}


def _nearest_beginning(api: str, names: pl.Series) -> str:
    """Return the nearest beginning of names, of as many parts as the API has."""
    parts = api.count(".") + 1
    return nearest(api, dict.fromkeys(".".join(name.split(".")[:parts]) for name in names.drop_nulls()))
