"""Draws who imports whom, packages and rooms, into docs/architecture.md: `make picture`.

`python -m tools.picture --check` changes nothing and exits with 1 when the picture is out of date.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tools.import_graph import Module, cycles, edges, modules

PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"
BEGIN = "<!-- make picture: begin -->"
END = "<!-- make picture: end -->"
WIDTH = 110
TOP = "torchparity"

Counts = Mapping[str, Counter[str]]


def picture() -> str:
    """Return the picture as text: packages from the top layer down, each with its rooms and what it imports."""
    files = modules()
    graph = edges(files)
    by_name = {module.name: module for module in files}
    between = _counted(graph, {name: module.package or TOP for name, module in by_name.items()})
    lines = ["A package or room, its number of files ─▶ what it imports, and how many of its imports reach there.", ""]
    for layer in _layers(between):
        lines += ["─" * WIDTH]
        for package in layer:
            lines += _package(package, files, graph, between[package])
    lines += ["─" * WIDTH, "", _sums(files, graph)]
    return "\n".join(lines)


def _package(name: str, files: list[Module], graph: Mapping[str, set[str]], reached: Counter[str]) -> list[str]:
    """Return the lines of one package: itself, then its rooms."""
    inside = [module for module in files if (module.package or TOP) == name]
    rooms = sorted({_room(module) for module in inside})
    head = f"{name + ('/' if len(inside) > 1 else ''):<26}{len(inside):>2} "
    lines = _wrapped(head, _arrows(reached))
    if len(rooms) < 2:
        return lines
    between = _counted(graph, {module.name: _room(module) for module in inside})
    for room in rooms:
        of_room = [module for module in inside if _room(module) == room]
        shown = f"  {room.removeprefix(name).lstrip('.') or '(directly)':<24}{len(of_room):>2} "
        lines += _wrapped(shown, _arrows({_short(target, name): n for target, n in between[room].items()}))
    return lines


def _room(module: Module) -> str:
    """Return the folder that a file lies in; a package's `__init__.py` belongs to the package."""
    return module.room or TOP


def _short(room: str, package: str) -> str:
    return room.removeprefix(f"{package}.") if room != package else "(directly)"


def _arrows(reached: Mapping[str, int]) -> list[str]:
    return [f"{target} {count}" for target, count in sorted(reached.items(), key=lambda entry: (-entry[1], entry[0]))]


def _wrapped(head: str, parts: Iterable[str]) -> list[str]:
    """Return `head ─▶ part · part`, in as many lines as it needs."""
    lines, line = [], head.rstrip()
    for index, part in enumerate(parts):
        joint = f"{head} ─▶ " if index == 0 else " · "
        longer = joint + part if index == 0 else line + joint + part
        if len(longer) > WIDTH:
            lines.append(line)
            longer = " " * (len(head) + 4) + part
        line = longer
    return [*lines, line]


def _counted(graph: Mapping[str, set[str]], group: Mapping[str, str]) -> dict[str, Counter[str]]:
    """Return, by group, how many imports it has of each other group."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in group.values()}
    for module, targets in graph.items():
        for target in targets:
            if module in group and target in group and group[module] != group[target]:
                counts[group[module]][group[target]] += 1
    return counts


def _layers(between: Counts) -> list[list[str]]:
    """Return the packages from those that nobody imports down to those that import nothing."""
    depth: dict[str, int] = {}
    groups = {name: set(reached) for name, reached in between.items()}
    in_cycle = {name: frozenset(group) for group in cycles(groups) for name in group}

    def depth_of(name: str) -> int:
        if name not in depth:
            depth[name] = 0  # also for what a cycle comes back to
            below = groups[name] - in_cycle.get(name, frozenset())
            depth[name] = 1 + max(map(depth_of, below), default=-1)
        return depth[name]

    for name in groups:
        depth_of(name)
    return [
        sorted(name for name in depth if depth[name] == level) for level in sorted(set(depth.values()), reverse=True)
    ]


def _sums(files: list[Module], graph: Mapping[str, set[str]]) -> str:
    """Return the last lines: how many files and imports there are, cycles, imports past a package's front."""
    imports = sum(len(targets) for targets in graph.values())
    loops = cycles({name: set(targets) for name, targets in graph.items()})
    between = _counted(graph, {module.name: module.package or TOP for module in files})
    package_loops = cycles({name: set(reached) for name, reached in between.items()})
    named = "; ".join(" ↔ ".join(group) for group in [*loops, *package_loops])
    private = sorted({f"{source} ─▶ {target}" for source, target in _reaching_inside(graph)})
    lines = [
        f"{len(files)} files, {imports} imports; cycles: {named or 'none, neither of files nor of packages'}.",
        f"Imports that reach into another package's room: {len(private) or 'none'}.",
    ]
    return "\n".join([*lines, *(f"  {each}" for each in private)])


def _reaching_inside(graph: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Yield imports of a file that lies in a room of another package, not directly in the package."""
    for source, targets in graph.items():
        for target in targets:
            package = target.partition(".")[0]
            if source.partition(".")[0] != package and target.count(".") > 1:
                yield source, target


def page_with(drawn: str) -> str:
    """Return docs/architecture.md with the picture between its two marks."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n```text\n{drawn}\n```\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Draw, or with --check tell whether the page has the picture of today."""
    page = page_with(picture())
    if "--check" in arguments:
        return int(page != PAGE.read_text())
    PAGE.write_text(page)
    print(picture())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
