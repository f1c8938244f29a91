"""`python -m tests.faultbed.table RESULTS.jsonl` writes docs/faultbed.md; reasons.toml has the reasons of misses."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

import msgspec

from tests.faultbed.cases import TASKS
from tests.faultbed.fault import STRENGTHS
from tests.faultbed.runner import Line, read

PAGE = Path(__file__).parents[2] / "docs" / "faultbed.md"
REASONS = Path(__file__).with_name("reasons.toml")
_WIDTH = 116
_HEAD = 2  # rows of a table without content
_INTRO = """# The fault bed

Faults are planted in small models, one at a time, in a training of two steps (forward, backward, clipping, optimizer),
and the run is compared with one without the fault. *Named* means that the answer has the exact record and the right
kind. Strength is told in ULPs: the distance of the faulty record's output from the right one, relative to its norm and
in units of the dtype's epsilon; a fault without strengths counts as large. The *rule* is msprobe's: the record of the
first row that its table calls `No` or `Warning`; it tells no kinds, so the record alone counts. `make faultbed` runs
the bed and writes this page; tests/faultbed has the models, the faults and their truths.

Words of the tables and of the names of cases (`model/kind/strength/baseline/task`):

- *plain*: the baseline is the same program without the fault, on the same kernels, so that all before the fault is
  equal in every bit.
- *noisy*: the baseline rounds otherwise nearly everywhere, as another device would, and the fault must be found among
  differences that are none.
- *void*: the fault changes no bit of any tensor there, so that no tensor can show it; such a case counts nowhere above
  its own section. An argument that differs can still be told.
- *not confirmed*: the first record that differs in its bits is none of those that the fault was declared to touch, so
  that the truth itself is in doubt; such a case counts all the same.
"""


def page(lines: list[Line], reasons: dict[str, str]) -> str:
    """Return the page of a bed's results."""
    faults = [line for line in lines if "kind" in line and not line["void"]]
    seen = [line for line in faults if not line["held_out"]]
    plain = [line for line in seen if line["baseline"] == "plain"]
    noisy = [line for line in seen if line["baseline"] == "noisy"]
    held_out = [line for line in faults if line["held_out"] and line["baseline"] == "plain"]
    pairs = [line for line in lines if "clean" in line]
    void = [line for line in lines if line.get("void")]
    parts = [
        _INTRO,
        _section("All faults", _totals(plain)),
        _section("By kind and strength", "T: named on tensors. S: named on statistics.\n\n" + _by_kind(plain)),
        _section("By model", _table("model", _grouped(plain, "model"))),
        _section("Through noise", _NOISE + _totals(noisy) + "\n" + _table("kind", _grouped(noisy, "kind"))),
        _section("Clean pairs", _clean(pairs, reasons)),
        _section(
            "Held out", _HELD_OUT + _totals(held_out) + "\n" + _by_kind(held_out) if held_out else "Not run yet.\n"
        ),
        _section("Misses", _misses([line for line in faults if line["baseline"] == "plain"], reasons)),
        _section("Misses through noise", _misses(noisy, reasons)),
        _section("Void", _void(void)),
        _section("Not confirmed", _unconfirmed([line for line in faults if line["baseline"] == "plain"])),
    ]
    return "\n".join(parts)


_NOISE = """The same faults on a baseline with other rounding everywhere: what multiplies, sums or normalises is
computed in float64 there and rounded once.

"""
_VOID = """No bit of any tensor differs in these; what was said is beside them.

"""
_UNCONFIRMED = """The record that differs first in its bits is another than the fault was declared to touch.

"""
_HELD_OUT = """Two models and five kinds that were written first and not looked at while the judging was worked on.

"""


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n{text}"


def _share(lines: Iterable[Line], key: str) -> str:
    lines = list(lines)
    return f"{sum(bool(line[key]) for line in lines)}/{len(lines)}" if lines else "-"


def _percent(lines: list[Line], key: str) -> str:
    return f"{100 * sum(bool(line[key]) for line in lines) / len(lines):.1f} %" if lines else "-"


def _totals(lines: list[Line]) -> str:
    rows = ["| strength | task | faults | named | record right | kind right | rule |", "|---|---|---|---|---|---|---|"]
    together = ("large and moderate", ("large", "moderate"))
    for title, strengths in [together, *((strength, (strength,)) for strength in STRENGTHS)]:
        for task in TASKS:
            chosen = [line for line in lines if line["task"] == task and line["strength"] in strengths]
            if not chosen:
                continue
            shares = " | ".join(_percent(chosen, key) for key in ("named", "record_right", "kind_right", "rule_right"))
            rows.append(f"| {title} | {task} | {len(chosen)} | {shares} |")
    return "\n".join(rows) + "\n" if len(rows) > _HEAD else "None.\n"


def _by_kind(lines: list[Line]) -> str:
    """Return a row for each kind; for each strength the ULPs and the named: tensor, statistics, the rule on tensors."""
    head = " | ".join(f"{strength}, ULPs | T | S | rule" for strength in STRENGTHS)
    rows = [f"| kind | {head} |", "|---" * (1 + 4 * len(STRENGTHS)) + "|"]
    for kind, of_kind in _grouped(lines, "kind"):
        cells = []
        for strength in STRENGTHS:
            chosen = [line for line in of_kind if line["strength"] == strength]
            of_task = {task: [line for line in chosen if line["task"] == task] for task in TASKS}
            ulps = [line["ulps"] for line in of_task["tensor"] if line["ulps"]]
            cells += [f"{median(ulps):.2g}" if ulps else "-", *(_share(of_task[task], "named") for task in TASKS)]
            cells.append(_share(of_task["tensor"], "rule_right"))
        rows.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _grouped(lines: list[Line], key: str) -> list[tuple[str, list[Line]]]:
    names = dict.fromkeys(line[key] for line in lines)
    return [(name, [line for line in lines if line[key] == name]) for name in sorted(names)]


def _table(title: str, groups: list[tuple[str, list[Line]]]) -> str:
    """Return the named of large and moderate faults, and of those near rounding if there are any, for each group."""
    has_near = any(line["strength"] == "near" for _, lines in groups for line in lines)
    heads = [title, "tensor", "statistics", "rule", *(["near: tensor", "near: statistics"] if has_near else [])]
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, lines in groups:
        clear = [line for line in lines if line["strength"] != "near"]
        near = [line for line in lines if line["strength"] == "near"]
        of_task: Callable[[list[Line], str], list[Line]] = lambda some, task: [x for x in some if x["task"] == task]  # noqa: E731
        cells = [_share(of_task(clear, task), "named") for task in TASKS]
        cells.append(_share(of_task(clear, "tensor"), "rule_right"))
        cells += [_share(of_task(near, task), "named") for task in TASKS] if has_near else []
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _clean(pairs: list[Line], reasons: dict[str, str]) -> str:
    rows = ["| pair | models | blamed: tensor | statistics |", "|---|---|---|---|"]
    for variant, lines in _grouped(pairs, "clean"):
        subjects = sorted({line["model"] for line in lines})
        shares = [_share([line for line in lines if line["task"] == task], "blamed") for task in TASKS]
        rows.append(f"| {variant} | {', '.join(subjects)} | {' | '.join(shares)} |")
    totals = [_share([line for line in pairs if line["task"] == task], "blamed") for task in TASKS]
    rows.append(f"| all | | {' | '.join(totals)} |")
    blamed = [_told(line, reasons) for line in pairs if line["blamed"]]
    return "\n".join(rows) + "\n\n" + "\n".join(blamed) + ("\n" if blamed else "")


def _misses(faults: list[Line], reasons: dict[str, str]) -> str:
    missed = [_told(line, reasons) for line in faults if not line["named"]]
    return "\n".join(missed) + "\n" if missed else "None.\n"


def _told(line: Line, reasons: dict[str, str]) -> str:
    """Return an item of a list: the case, what is true, what was said, and why where somebody has looked."""
    true = ""
    if "kind" in line:
        record = min(line["truth_records"], key=len, default="")
        true = f" True: {'/'.join(line['truth_kinds'])}, step {line['truth_step']}, {record}."
    said = line["headline"].replace("|", "/").replace("[", "(").replace("]", ")").strip()
    reason = reasons.get(line["id"]) or reasons.get(line["id"].rsplit("/", 1)[0]) or "not looked into"
    text = f"- `{line['id']}`:{true} Said ({line['said_kind']}): {said[:300]} *Reason: {reason}.*"
    return "\n".join(textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False))


def _void(void: list[Line]) -> str:
    """Return the cases whose fault changes no bit of any tensor, a line each for all tasks with the same answer."""
    tasks: dict[tuple[str, str], list[str]] = {}
    for line in (line for line in void if line["baseline"] == "plain"):
        told = "named" if line["named"] else f"said {line['said_kind']}"
        tasks.setdefault((line["id"].removesuffix(f"/{line['task']}"), told), []).append(line["task"])
    items = [f"- `{case}` ({', '.join(of_case)}): {told}" for (case, told), of_case in tasks.items()]
    return _VOID + "\n".join(items) + "\n" if items else "None.\n"


def _unconfirmed(faults: list[Line]) -> str:
    """Return the cases in which the first record that differs in its bits is none of those that the fault declares."""
    items = [
        f"- `{line['id']}`: {line['first_in_bits']} differs first"
        for line in faults
        if not line["confirmed"] and line["task"] == "tensor"
    ]
    return _UNCONFIRMED + "\n".join(items) + "\n" if items else "None.\n"


def main() -> int:
    reasons = msgspec.toml.decode(REASONS.read_bytes(), type=dict[str, str])
    PAGE.write_text(page(read(Path(sys.argv[1])), reasons))
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
