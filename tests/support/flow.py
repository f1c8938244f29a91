"""The data flow that a run tells, as texts."""

from __future__ import annotations

from torchparity import open_run
from torchparity.records import TensorLeaf


class Flow:
    """The producers of every item of a run, as texts."""

    def __init__(self, path):
        self.parts = {part.step: part for part in open_run(path).parts}

    def of(self, record, item, step=0):
        part = self.parts[step]
        leaf = {each.name: each.leaf for each in part.records[record].items()}[item]
        return [_text(origin) for origin in part.origins_of(leaf)]

    def all(self, step=0):
        part = self.parts[step]
        return {
            f"{record.name}.{item.name}": [_text(origin) for origin in part.origins_of(item.leaf)]
            for record in part.records.values()
            for item in record.items()
            if isinstance(item.leaf, TensorLeaf)
        }


def _text(origin):
    step = "" if origin.step is None else f"step{origin.step} "
    return origin.name if origin.kind == "record" else f"{step}{origin.kind} {origin.name}".strip()
