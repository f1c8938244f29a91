"""A run, a record and a tensor on a terminal; plain aligned text when piped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.console import Console
from rich.table import Table
from rich.text import Text

from torchparity.records import (
    GroupLeaf,
    Item,
    Leaf,
    PartSummary,
    Record,
    RunSummary,
    Statistics,
    TensorLeaf,
    TensorProfile,
    ValueLeaf,
)

_PLAIN_WIDTH = 400  # when piped, lines are for grep: never wrapped, never cut
_BAR = 40


def run(summary: RunSummary) -> None:
    """Print a run at a glance."""
    console = _console()
    first = summary.parts[0]
    _facts(
        console,
        ("run", summary.path),
        ("written by", first.tool or "an unknown tool"),
        ("task, level", f"{first.task}, {first.level}"),
        ("steps", _ranges(summary.steps)),
        ("ranks", _ranges(summary.ranks)),
        ("in memory", f"{_bytes(sum(part.tensor_bytes for part in summary.parts))} in all tensors"),
        ("on disk", _bytes(sum(part.stored_bytes for part in summary.parts))),
    )
    _table(
        console,
        "",
        ("step", "rank", "forward", "backward", "other", "items", "tensors", "on disk", "nan/inf", "state"),
        [_part_row(part) for part in summary.parts],
    )
    for title, unit, sizes in (
        ("largest records", _bytes, [(size, part) for part in summary.parts for size in part.largest]),
        ("slowest records", _seconds, [(size, part) for part in summary.parts for size in part.slowest]),
    ):
        most = sorted(sizes, key=lambda entry: -entry[0].amount)[:5]
        rows = [(unit(size.amount), str(part.step), str(part.rank), size.name) for size, part in most]
        if rows:
            _table(console, title, ("amount", "step", "rank", "record"), rows)


def record(shown: Record, *, stack: Sequence[str], parent: str | None, where: str) -> None:
    """Print one record: its items with statistics, its module, its call stack."""
    console = _console()
    facts = [("record", shown.name), ("where", where)]
    if parent:
        facts.append(("inside", parent))
    if shown.seconds is not None:
        facts.append(("took", _seconds(shown.seconds)))
    marks = [
        text for flag, text in ((shown.is_recompute, "recomputed"), (shown.in_backward, "called in backward")) if flag
    ]
    if marks:
        facts.append(("note", ", ".join(marks)))
    if shown.error:
        facts.append(("raised", shown.error))
    _facts(console, *facts)
    columns = ("item", "type", "shape", "max", "min", "mean", "norm", "nan", "inf", "grad", "value or checksum")
    _table(console, "", columns, [_item_row(item) for item in shown.items()])
    if stack:
        console.print(Text("\ncall stack, innermost first"))
        for frame in stack:
            console.print(Text("  " + " ".join(frame.split())))


def tensor(name: str, profile: TensorProfile, *, values: str) -> None:
    """Print one tensor: statistics, extremes, histogram, values."""
    console = _console()
    kept = profile.statistics
    _facts(
        console,
        ("tensor", name),
        ("dtype, shape", f"{profile.dtype} {list(profile.shape)}"),
        ("max, min", f"{_number(kept.max)}, {_number(kept.min)}"),
        ("mean, norm", f"{_number(kept.mean)}, {_number(kept.norm)}"),
        ("zeros, nan", f"{kept.zero_count}, {kept.nan_count}"),
        ("+inf, -inf", f"{kept.inf_count}, {kept.negative_inf_count}"),
        ("crc-32", profile.checksum),
        *((f"{_PLACE[place]} at", str(index)) for place, index in profile.places.items()),
    )
    if profile.histogram_counts:
        console.print(Text("\nhistogram of the finite values"))
        _histogram(console, profile)
    console.print(Text("\nvalues"))
    console.print(Text(values))


_PLACE = {"max": "max", "min": "min", "nan": "first nan", "inf": "first +inf", "-inf": "first -inf"}


def _console() -> Console:
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else _PLAIN_WIDTH, highlight=False, soft_wrap=not terminal)


def _facts(console: Console, *facts: tuple[str, str]) -> None:
    width = max(len(label) for label, _ in facts)
    for label, text in facts:
        console.print(Text.assemble((f"{label:<{width}}  ", "bold"), text))


def _table(console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    if title:
        console.print(Text(f"\n{title}", style="bold"))
    else:
        console.print()
    if not console.is_terminal:
        _plain_table(console, columns, list(rows))
        return
    table = Table(header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _plain_table(console: Console, columns: Sequence[str], rows: list[Sequence[str]]) -> None:
    widths = [max(len(row[index]) for row in [columns, *rows]) for index in range(len(columns))]
    for row in [columns, *rows]:
        console.print(Text("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()))


def _part_row(part: PartSummary) -> tuple[str, ...]:
    forward, backward = part.records.get("forward", 0), part.records.get("backward", 0)
    other = sum(part.records.values()) - forward - backward
    state = "unreadable" if part.problems and not part.records else "complete" if part.is_complete else "cut off"
    numbers = (part.step, part.rank, forward, backward, other, part.items, part.tensors)
    damaged = "damaged" if part.problems and part.records and part.is_complete else state
    return (*map(str, numbers), _bytes(part.stored_bytes), str(part.nonfinite_records), damaged)


def _item_row(item: Item) -> tuple[str, ...]:
    leaf = item.leaf
    name = item.name or "value"
    if not isinstance(leaf, TensorLeaf):
        return (name, _type(leaf), "", "", "", "", "", "", "", "", _value(leaf))
    kept = leaf.statistics or Statistics()
    inf = None if kept.inf_count is None else kept.inf_count + (kept.negative_inf_count or 0)
    kind = leaf.dtype.removeprefix("torch.") + (f" {leaf.layout}" if leaf.layout else "")
    numbers = (kept.max, kept.min, kept.mean, kept.norm, kept.nan_count, inf)
    grad = "" if leaf.requires_grad is None else "yes" if leaf.requires_grad else "no"
    return (name, kind, str(list(leaf.shape)), *(_number(number) for number in numbers), grad, leaf.checksum or "")


def _type(leaf: Leaf) -> str:
    return "None" if leaf is None else leaf.type.removeprefix("torch.")


def _value(leaf: Leaf) -> str:
    if isinstance(leaf, GroupLeaf):
        return str(list(leaf.ranks))
    return str(leaf.value) if isinstance(leaf, ValueLeaf) and leaf.value is not None else ""


def _number(value: float | int | bool | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, (bool, int)) else f"{value:.6g}"


def _bytes(amount: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return ""


def _seconds(amount: float) -> str:
    return f"{amount * 1e3:.2f} ms" if amount >= 1e-3 else f"{amount * 1e6:.0f} us"


def _ranges(numbers: Sequence[int]) -> str:
    """Return "0-3, 7" for [0, 1, 2, 3, 7]."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _histogram(console: Console, profile: TensorProfile) -> None:
    most = max(profile.histogram_counts)
    for (low, high), count in zip(pairwise(profile.histogram_edges), profile.histogram_counts, strict=True):
        bar = "#" * (-(-count * _BAR // most))
        console.print(Text(f"  {low:>12.5g} .. {high:<12.5g} {count:>10}  {bar}".rstrip()))
