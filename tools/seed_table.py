"""Writes docs/seed-interfaces.md: every interface that the documents of earlier tools print, and a test of it.

    python -m tools.seed_table [--print] [FOLDER OF THE DOCUMENTS]

A test covers a name when its text, or the text that it uses in its own file, has the name in the form of its kind: a
flag as a flag, a field as a key or a keyword, a column or a word of a result between quotes.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from tests.seeds.samples import SEEDS
from tools.seed_reasons import REASONS
from tools.seed_words import KINDS, Printed, printed
from tools.test_texts import TestFile, best_test, by_folder, read_tests

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "seed-interfaces.md"
HEAD = """# Interfaces of the earlier tools

<!-- Written by `python -m tools.seed_table`; do not edit. -->

Every function, command, flag, field, value, file, column, word of a result and message that the five documents print
([what they lead to](earlier-tools.md)), with a test that covers it. Documents: 0 torch_npu.hooks, 1 ptdbg_ascend,
2 api_accuracy_checker, 3 msprobe compare, 4 msprobe free_benchmark.
"""
_FOLDERS = {
    0: ("seeds", "compat"),
    1: ("seeds", "compat"),
    2: ("seeds", "check", "overflow", "cli"),
    3: ("seeds", "cli", "comparing", "merging", "report"),
    4: ("seeds", "perturb", "config"),
}
_PLURALS = {"word": "words of results", "message": "messages", "name": "other names"}


class Row(NamedTuple):
    """One interface: who prints it, which test covers it, or why none has to."""

    printed: Printed
    documents: list[int]
    test: str
    reason: str


def rows(folder: Path) -> list[Row]:
    """Return a row for every interface of the documents in a folder."""
    files = read_tests(ROOT / "tests", without="test_table.py")
    ordered = {number: by_folder(files, folders) for number, folders in _FOLDERS.items()}
    found = sorted(printed(folder).items(), key=lambda item: (KINDS.index(item[0].kind), item[0].name))
    return [_row(each, documents, ordered[documents[0]]) for each, documents in found]


def _row(each: Printed, documents: list[int], files: list[TestFile]) -> Row:
    reason = next((why for name, why in REASONS.get(each.kind, {}).items() if fnmatchcase(each.name, name)), "")
    test = None if reason else best_test(files, form_of(each))
    return Row(each, documents, f"{test.file}::{test.name}" if test else "", reason)


def form_of(each: Printed) -> Callable[[str], bool]:
    """Return what tells whether a text has a name in the form of its kind."""
    if each.kind in ("file", "message"):
        fixed = [part for part in re.split(r"\{[^}]*\}|\*|[^\x00-\x7f]+", each.name) if len(part.strip(" .,/")) > 1]
        return lambda text: all(part.strip(" .,") in text for part in fixed)
    if each.kind == "command":
        words = [re.compile(rf"\b{re.escape(word)}\b") for word in each.name.split() if word != "python"]
        return lambda text: all(word.search(text) for word in words)
    name = re.escape(each.name).replace(r"\*", r"\w+")
    forms = {
        "flag": rf"(?<![\w-]){name}(?![\w-])",
        "field": rf"""["']{name}["']|(?<!\w){name}=|(?<!\w){name}:""",
        "value": rf"""["'`]{name}["'`]|(?<!\w){name}(?!\w)""" if "." in name else rf"""["']{name}["']""",
        "column": rf"""["',]{name}["',]""",
        "word": rf"""["']{name}["']""",
    }
    pattern = re.compile(forms.get(each.kind, rf"(?<![A-Za-z0-9_]){name}(?![A-Za-z0-9_])"))
    return lambda text: pattern.search(text) is not None


def without_test(table: list[Row]) -> list[str]:
    """Return what neither a test covers nor a reason excuses."""
    return [f"{row.printed.kind} {row.printed.name}" for row in table if not row.test and not row.reason]


def counts(table: list[Row]) -> str:
    """Return how many of each kind are printed, covered and excused."""
    all_, covered = Counter(row.printed.kind for row in table), Counter(row.printed.kind for row in table if row.test)
    excused = Counter(row.printed.kind for row in table if row.reason)
    lines = ["| kind | printed | with a test | with a reason |", "|---|---|---|---|"]
    lines += [f"| {kind} | {all_[kind]} | {covered[kind]} | {excused[kind]} |" for kind in KINDS]
    return "\n".join([*lines, f"| all | {all_.total()} | {covered.total()} | {excused.total()} |", ""])


def page(table: list[Row]) -> str:
    """Return the whole page."""
    return "\n".join([HEAD, counts(table), *(_section(kind, table) for kind in KINDS)])


def _section(kind: str, table: list[Row]) -> str:
    lines = [
        f"## {_PLURALS.get(kind, kind + 's').capitalize()}",
        "",
        "| name | documents | test, or why none |",
        "|---|---|---|",
    ]
    for row in table:
        if row.printed.kind == kind:
            why = f"`{row.test}`" if row.test else row.reason or "NONE"
            name = row.printed.name.replace("|", r"\|")
            lines.append(f"| `{name}` | {', '.join(map(str, row.documents))} | {why} |")
    return "\n".join([*lines, ""])


def main(arguments: list[str]) -> int:
    """Write the page, or print it; exit with 1 where something is without a test and a reason."""
    folder = next((Path(word) for word in arguments if not word.startswith("--")), SEEDS)
    if not any(folder.glob("*.txt")):
        print(f"{folder} has no documents; give their folder, or set TORCHPARITY_SEEDS.", file=sys.stderr)
        return 2
    table = rows(folder)
    if "--print" in arguments:
        print(page(table))
    else:
        PAGE.write_text(page(table), encoding="utf-8")
        print(counts(table), end="")
    for missing in without_test(table):
        print(f"no test: {missing}")
    return int(bool(without_test(table)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
