"""The text of every test, with what the test uses of its own file: constants, fixtures, other functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_WORD = re.compile(r"[A-Za-z_]\w*")
_CONTINUED = re.compile(r'"\n\s*[fr]?"')  # between two lines of one literal


class Test(NamedTuple):
    """One test: its file, its name, its own text, and that of all it uses in its file."""

    file: str
    name: str
    own: str
    whole: str


class TestFile(NamedTuple):
    """One file of tests: its folder, and its text, to look for a name before any of its tests is looked at."""

    folder: str
    text: str
    tests: list[Test]


def read_tests(root: Path, *, without: str) -> list[TestFile]:
    """Return the files of tests below a root; one file is left out."""
    return [_read(file, root) for file in sorted(root.rglob("test_*.py")) if file.name != without]


def by_folder(files: list[TestFile], first: tuple[str, ...]) -> list[TestFile]:
    """Return the files, those of the first folders before all others."""
    return sorted(files, key=lambda file: first.index(file.folder) if file.folder in first else len(first))


def _read(file: Path, root: Path) -> TestFile:
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    parts: dict[str, str] = {}
    for node in ast.parse(text).body:
        for name, part in _parts(node, lines):
            parts[name] = f"{parts[name]}\n{part}" if name in parts else part
    tests = []
    for name, own in parts.items():
        if name.startswith("test_"):
            used = _used(name, parts)
            shared = "\n".join(parts[each] for each in sorted(used - {name}))
            whole = _CONTINUED.sub("", f"{own}\n{shared}")
            tests.append(Test(str(file.relative_to(root.parent)), name, _CONTINUED.sub("", own), whole))
    return TestFile(file.relative_to(root).parts[0], _CONTINUED.sub("", text), tests)


def _parts(node: ast.stmt, lines: list[str]) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        begin = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        yield node.name, "\n".join(lines[begin - 1 : node.end_lineno])
    elif isinstance(node, ast.Assign | ast.AugAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for each in ast.walk(target):
                if isinstance(each, ast.Name):
                    yield each.id, "\n".join(lines[node.lineno - 1 : node.end_lineno])


def _used(name: str, parts: dict[str, str]) -> set[str]:
    used, ahead = set[str](), [name]
    while ahead:
        part = ahead.pop()
        if part not in used:
            used.add(part)
            ahead += [word for word in set(_WORD.findall(parts[part])) if word in parts]
    return used


def best_test(files: list[TestFile], is_in: Callable[[str], bool]) -> Test | None:
    """Return the first test that covers a name; in a file, one with the name in its own text before the others."""
    for file in files:
        if is_in(file.text):
            own = (test for test in file.tests if is_in(test.own))
            found = next(own, None) or next((test for test in file.tests if is_in(test.whole)), None)
            if found is not None:
                return found
    return None
