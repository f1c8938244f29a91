"""Runs whose dump.json is written by hand, for what no recording would write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def tensor(**changed: object) -> Json:
    """Return a tensor as dump.json has it."""
    plain = {"dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.5, "Mean": 0.7, "Norm": 1.2}
    return {"type": "torch.Tensor", **plain, "requires_grad": False, **changed}


def constant(value: float | str, **changed: object) -> Json:
    """Return a tensor all of whose statistics are one number."""
    return tensor(Max=value, Min=value, Mean=value, Norm=value, **changed)


def call(inputs: list[Json], outputs: list[Json]) -> Json:
    """Return a forward record with these positional inputs and these outputs."""
    return {"input_args": inputs, "input_kwargs": {}, "output": outputs}


def write_dump(path: Path, data: Json | str, task: str = "statistics") -> Path:
    """Write a dump.json with records, or with a text in their place."""
    folder = path / "step0" / "rank0"
    folder.mkdir(parents=True)
    content = data if isinstance(data, str) else json.dumps(data)
    (folder / "dump.json").write_text(f'{{"task": "{task}", "level": "L1", "data": {content}}}')
    return path
