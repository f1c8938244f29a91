"""Printing a run, a record or a tensor on a terminal; plain aligned text when piped."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise

from rich.console import Console
from rich.text import Text

from torchparity.records import (
    GroupLeaf,
    Item,
    Leaf,
    Record,
    Statistics,
    TensorLeaf,
    ValueLeaf,
)
from torchparity.report.environment import changes, environment_lines
from torchparity.summaries import PartSummary, RunSummary, TensorProfile
from torchparity.text import printable, readable_bytes

_PLAIN_WIDTH = 10_000  # when piped, lines are for grep: never wrapped, never cut
_BAR = 40
_PLACE = {"max": "max at", "min": "min at", "nan": "first nan at", "inf": "first +inf at", "-inf": "first -inf at"}


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit with 1, which means "the runs differ"


def run(summary: RunSummary, *, verified: bool) -> None:
    """Print a run at a glance."""
    console = _console()
    first = summary.parts[0]
    checksums = " with checksums" if first.has_checksums else ""
    _facts(
        console,
        ("run", summary.path),
        ("written by", first.tool or "an unknown tool"),
        ("task, level", f"{first.task}{checksums}, {first.level}"),
        ("steps", _ranges(summary.steps)),
        ("ranks", _ranges(summary.ranks)),
        ("in memory", f"{readable_bytes(sum(part.tensor_bytes for part in summary.parts))} in all tensors"),
        ("on disk", readable_bytes(sum(part.stored_bytes for part in summary.parts))),
    )
    columns = ("step", "rank", "forward", "backward", "other", "items", "tensors", "on disk", "with nan/inf", "state")
    _table(console, "\nrecords", columns, [_part_row(part, verified) for part in summary.parts])
    missing = [(str(part.step), str(part.rank), sentence) for part in summary.parts for sentence in part.missing]
    if missing:
        _table(console, "\nmissing", ("step", "rank", "what is missing"), missing)
    for title, column, unit, sizes in (
        (
            "\nlargest records",
            "size",
            readable_bytes,
            [(size, part) for part in summary.parts for size in part.largest],
        ),
        ("\nslowest records", "time", _seconds, [(size, part) for part in summary.parts for size in part.slowest]),
    ):
        most = sorted(sizes, key=lambda entry: -entry[0].amount)[:5]
        rows = [(unit(size.amount), str(part.step), str(part.rank), size.name) for size, part in most]
        if rows:
            _table(console, title, (column, "step", "rank", "record"), rows)
    _environment(console, summary.parts)


def _environment(console: Console, parts: Sequence[PartSummary]) -> None:
    """Print the environment of the first part, and where another part has another."""
    first = parts[0]
    if not first.environment:
        return
    _table(console, "\nenvironment", ("what", "is"), environment_lines(first.environment))
    others = [(part, changes(part.environment, first.environment)) for part in parts[1:] if part.environment]
    rows = [(str(part.step), str(part.rank), text) for part, text in others if text]
    if rows:
        _table(console, "\nother environments", ("step", "rank", "instead"), rows)


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
    columns = ("item", "type", "shape", "max", "min", "mean", "norm", "nan", "inf", "grad", "value", "checksum")
    _table(console, "\nitems", columns, [_item_row(item) for item in shown.items()])
    if stack:
        console.print(_text("\ncall stack, innermost first", style="bold"))
        for frame in stack:
            place, _, source = frame.partition("\n")
            console.print(_text(f"  {place.strip().rstrip(',')}"))
            if source.strip():
                console.print(_text(f"      {source.strip()}"))


def tensor(name: str, profile: TensorProfile, *, values: str) -> None:
    """Print one tensor: statistics, extremes, histogram, values."""
    console = _console()
    statistics = profile.statistics
    facts = [
        ("tensor", name),
        ("dtype, shape", f"{profile.dtype} {list(profile.shape)}"),
        ("max, min", f"{_number(statistics.max)}, {_number(statistics.min)}"),
        ("mean, norm", f"{_number(statistics.mean)}, {_number(statistics.norm)}"),
        ("zeros, nan", f"{statistics.zero_count}, {statistics.nan_count}"),
        ("+inf, -inf", f"{statistics.inf_count}, {statistics.negative_inf_count}"),
        ("crc-32", profile.checksum),
    ]
    if statistics.nan_count or statistics.inf_count or statistics.negative_inf_count:
        facts[4:4] = [
            ("finite max, min", f"{_number(statistics.finite_max)}, {_number(statistics.finite_min)}"),
            ("finite mean, norm", f"{_number(statistics.finite_mean)}, {_number(statistics.finite_norm)}"),
        ]
    finite = "finite " if len(facts) > 7 else ""
    facts += [
        (f"{finite if place in ('max', 'min') else ''}{_PLACE[place]}", str(index))
        for place, index in profile.places.items()
    ]
    _facts(console, *facts)
    if profile.histogram_counts:
        console.print(_text("\nhistogram of the finite values", style="bold"))
        _histogram(console, profile)
    console.print(_text("\nvalues", style="bold"))
    console.print(_text(values))


def _text(content: str, style: str = "") -> Text:
    return Text(printable(content), style=style)


def _console() -> Console:
    terminal = sys.stdout.isatty()
    return _Console(width=None if terminal else _PLAIN_WIDTH, highlight=False, soft_wrap=not terminal)


def _facts(console: Console, *facts: tuple[str, str]) -> None:
    width = max(len(label) for label, _ in facts)
    for label, text in facts:
        console.print(Text.assemble((f"{label:<{width}}  ", "bold"), printable(text)))


def _table(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns without the empty ones; where the terminal is too narrow, a block a row."""
    filled = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    lines = [[row[index] for index in filled] for row in [columns, *rows]]
    widths = [max(len(line[place]) for line in lines) for place in range(len(filled))]
    console.print(_text(title, style="bold"))
    if sum(widths) + 2 * len(widths) > console.width:
        for row in rows:
            facts = [f"{columns[index]} {row[index]}" for index in filled[1:] if row[index]]
            console.print(_text(row[filled[0]], style="bold"))
            console.print(_text("  " + "  ".join(facts)))
        return
    for number, line in enumerate(lines):
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        console.print(_text(text, style="" if number else "dim"))


def _part_row(part: PartSummary, verified: bool) -> tuple[str, ...]:
    forward, backward = part.records.get("forward", 0), part.records.get("backward", 0)
    other = sum(part.records.values()) - forward - backward
    numbers = (part.step, part.rank, forward, backward, other, part.items, part.tensors)
    nonfinite = "not recorded" if part.nonfinite_records is None else str(part.nonfinite_records)
    return (*map(str, numbers), readable_bytes(part.stored_bytes), nonfinite, _state(part, verified))


def _state(part: PartSummary, verified: bool) -> str:
    if not part.is_complete:
        return "cut off"
    if part.is_damaged:
        return "damaged" if part.records else "unreadable"
    if part.missing:
        return "incomplete"
    return "verified" if verified else "complete"


def _item_row(item: Item) -> tuple[str, ...]:
    leaf, name = item.leaf, item.name or "value"
    if not isinstance(leaf, TensorLeaf):
        return (name, _type(leaf), "", "", "", "", "", "", "", "", _value(leaf), "")
    statistics = leaf.statistics or Statistics()
    inf = None if statistics.inf_count is None else statistics.inf_count + (statistics.negative_inf_count or 0)
    kind = leaf.dtype.removeprefix("torch.") + (f" {leaf.layout}" if leaf.layout else "")
    numbers = [
        _number(number, unknown="") for number in (statistics.max, statistics.min, statistics.mean, statistics.norm)
    ]
    counts = [_count(number, numbers) for number in (statistics.nan_count, inf)]
    grad = "" if leaf.requires_grad is None else "yes" if leaf.requires_grad else "no"
    return (name, kind, str(list(leaf.shape)), *numbers, *counts, grad, "", leaf.checksum or "")


def _count(number: int | None, values: list[str]) -> str:
    """Return nothing for none, "?" where the tool did not count although there are some."""
    if number is None:
        return "?" if set(values) & {"nan", "inf", "-inf"} else ""
    return str(number) if number else ""


def _type(leaf: Leaf) -> str:
    return "None" if leaf is None else leaf.type.removeprefix("torch.")


def _value(leaf: Leaf) -> str:
    if isinstance(leaf, GroupLeaf):
        return str(list(leaf.ranks))
    return str(leaf.value) if isinstance(leaf, ValueLeaf) and leaf.value is not None else ""


def _number(value: float | int | bool | None, unknown: str = "none") -> str:
    if value is None:
        return unknown
    return str(value) if isinstance(value, (bool, int)) else f"{value:.6g}"


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
    most, room = max(profile.histogram_counts), min(_BAR, max(8, console.width - 45))
    for (low, high), number in zip(pairwise(profile.histogram_edges), profile.histogram_counts, strict=True):
        bar = "#" * (-(-number * room // most))
        console.print(_text(f"  {low:>12.5g} .. {high:<12.5g} {number:>10}  {bar}".rstrip()))
