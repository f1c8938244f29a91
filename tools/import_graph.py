"""The imports inside torchparity, read off every file's syntax tree.

Imports inside functions and under TYPE_CHECKING count; so do `plugins.load("room", ...)`,
`plugins.names("room")` and `import_module("torchparity...")`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "torchparity"


@dataclass(frozen=True)
class Module:
    """One file: its dotted name below torchparity ("" for the package itself) and what it imports."""

    name: str
    file: Path
    imports: frozenset[str]  # full dotted names, torchparity's own and others

    @property
    def package(self) -> str:
        """The first part of the name: `recording`, `errors`."""
        return self.name.partition(".")[0]

    @property
    def room(self) -> str:
        """The folder the file lies in, below torchparity: `recording.step`; a file of the ground is its own room."""
        is_package = self.file.name == "__init__.py"
        return self.name if is_package or "." not in self.name else self.name.rpartition(".")[0]


def modules() -> list[Module]:
    """Return every file of the source tree."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Module(name, file, frozenset(imports(file))))
    return found


def imports(file: Path) -> Iterator[str]:
    """Yield the full dotted name of everything a file imports."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise SyntaxError(f"{file} has a relative import")
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            yield from _named_in_call(node)


def _named_in_call(node: ast.Call) -> Iterator[str]:
    """Yield the module that `plugins.load("storage.formats", name)` or `import_module("torchparity.x")` reaches."""
    called = ast.unparse(node.func)
    first = node.args[0] if node.args else None
    text = _leading_text(first) if first is not None else ""
    if called in ("plugins.load", "plugins.names") and text:
        yield f"torchparity.{text}"
    elif called.endswith("import_module") and text.startswith("torchparity.") and text != "torchparity.":
        yield text.rstrip(".")


def _leading_text(node: ast.expr) -> str:
    """Return a literal text, of an f-string the part before its first value."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0] if isinstance(node.values[0], ast.expr) else node
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def edges(known: list[Module]) -> dict[str, set[str]]:
    """Return, by module, the modules of torchparity that it imports."""
    names = {module.name for module in known}
    return {
        module.name: {target for name in module.imports if (target := _target(name, names)) not in (None, module.name)}
        for module in known
    }


def _target(imported: str, names: set[str]) -> str | None:
    """Return the module an import reaches: of `torchparity.records.Record` that is `records`."""
    if imported.split(".")[0] != "torchparity":
        return None
    name = imported.removeprefix("torchparity").lstrip(".")
    while name and name not in names:
        name = name.rpartition(".")[0]
    return name


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of nodes that reach one another (Tarjan)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in order:
                visit(target)
                lowest[node] = min(lowest[node], lowest[target])
            elif target in stack:
                lowest[node] = min(lowest[node], order[target])
        if lowest[node] == order[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in order:
            visit(node)
    return found
