"""Writes docs/config.md from the settings' types and the texts below their fields: `make docs`.

`python -m tools.config_docs --check` changes nothing and exits with 1 when the page is out of date.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from torchparity.config import (
    CaptureConfig,
    CompareConfig,
    FreeBenchmarkTask,
    OverflowTask,
    StatisticsTask,
    TensorTask,
    settings,
)
from torchparity.config.refusals import wanted
from torchparity.config.settings import BLOCKS, offered

PAGE = Path(__file__).parent.parent / "docs" / "config.md"
HEAD = """# Settings

<!-- Written by `make docs` from src/torchparity/config/settings.py; do not edit. -->

Recording is set up by a file, by keyword arguments, or by both; an argument wins over the file:

```python
torchparity.PrecisionDebugger(config_path="config.json", task="tensor")
torchparity.capture("my_run", model=model, list=["relu"], step="0-3")
```

A field of the task's own block may be given as an argument without the block, as `list` above.
A field or value that does not exist is refused with the nearest that does, before anything is recorded.
`capture` takes the run's folder as its first argument instead of `dump_path`, and chooses level mix when it
is given a model. msprobe's config.json files work as they are.
"""
SECTIONS: tuple[tuple[str, str, type[msgspec.Struct]], ...] = (
    ("config.json", "What to record, when and where.", CaptureConfig),
    ("Block `statistics`", "Which calls to record with statistics of their tensors.", StatisticsTask),
    ("Block `tensor`", "Which calls to record with the values of their tensors.", TensorTask),
    ("Block `overflow_check`", "When to stop looking for calls that overflow ([overflow](overflow.md)).", OverflowTask),
    (
        "Block `free_benchmark`",
        "Which calls to perturb, and how ([checking without a baseline](free-benchmark.md)).",
        FreeBenchmarkTask,
    ),
    ("compare.json", "For `torchparity compare -i compare.json`, as msprobe has it.", CompareConfig),
)


def page() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *(_section(*section) for section in SECTIONS)])


def _section(title: str, purpose: str, kind: type[msgspec.Struct]) -> str:
    rows = ["| field | value | default | meaning |", "|---|---|---|---|"]
    hints, texts = get_type_hints(kind, include_extras=True), _texts(kind)
    defaults = {field.name: field for field in msgspec.structs.fields(kind)}
    for name in offered(kind.__struct_fields__):
        value = "an object" if name in BLOCKS else wanted(hints[name]).replace("'", "`")
        rows.append(f"| `{name}` | {value} | {_default(defaults[name])} | {texts[name]} |")
    return f"## {title}\n\n{purpose}\n\n" + "\n".join(rows) + "\n"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "must be given"
    value: Any = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return "" if isinstance(value, msgspec.Struct) else f"`{json.dumps(value)}`"


def _texts(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the text below each field of a class, read from the source: Python keeps none of it."""
    tree = ast.parse(inspect.getsource(settings))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    texts: dict[str, str] = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            texts[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return texts


def main(arguments: list[str]) -> int:
    """Write the page, or with --check tell whether it is the one of today."""
    if "--check" in arguments:
        return int(page() != PAGE.read_text())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
