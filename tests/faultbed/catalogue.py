"""The records of a subject's baseline, to choose from where to plant a fault."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from torchparity import open_run
from torchparity.naming import OPTIMIZER
from torchparity.records import Record, TensorLeaf, ValueLeaf


class Catalogue:
    """The records of the baseline's first step and who contains whom."""

    def __init__(self, run: Path) -> None:
        self._part = open_run(run).part(step=0)
        self.records = self._part.records
        self.names = list(self.records)

    @cached_property
    def _parents(self) -> dict[str, str | None]:
        return self._part.construct

    def calls(self, *ops: str) -> list[str]:
        """Return the forward records of these operators in order, but for those of the optimizer."""
        wanted = [name for name in self.names if name.endswith(".forward") and name.rsplit(".", 2)[0] in ops]
        return [name for name in wanted if not self.is_in_optimizer(name)]

    def is_in_optimizer(self, name: str) -> bool:
        parent = self._parents.get(name)
        return parent == OPTIMIZER

    def is_before_backward(self, name: str) -> bool:
        first = next(place for place, each in enumerate(self.names) if each.endswith((".backward", ".backward.0")))
        return self.names.index(name) < first

    def has_backward(self, name: str) -> bool:
        return name.removesuffix("forward") + "backward" in self.records

    def has_gradient(self, name: str) -> bool:
        """Tell whether the call's first argument gets a gradient."""
        backward = self.records.get(name.removesuffix("forward") + "backward")
        return backward is not None and bool(backward.output) and isinstance(backward.output[0], TensorLeaf)

    def argument(self, name: str, key: str, position: int) -> object:
        """Return an argument's value; None where the call does not have it, a leaf where it is a tensor."""
        record: Record = self.records[name]
        place = record.input_args[position] if position < len(record.input_args) else record.input_kwargs.get(key)
        return place.value if isinstance(place, ValueLeaf) else place

    def same_call(self, name: str) -> frozenset[str]:
        """Return the record and, where a module does nothing else than this call, the module's record of it."""
        parent = self._parents.get(name)
        if parent is None or not parent.startswith("Module."):
            return frozenset({name})
        inside = [each for each, its in self._parents.items() if its == parent and each.endswith(".forward")]
        modules = [each for each, its in self._parents.items() if its == parent and each.startswith("Module.")]
        return frozenset({name, parent}) if inside == [name] and not modules else frozenset({name})

    def same_backward(self, name: str) -> frozenset[str]:
        """Return the backward record of a forward record, with its module's as in `same_call`."""
        return frozenset(
            each.replace(".forward.", ".backward.")
            if each.startswith("Module.")
            else each.removesuffix("forward") + "backward"
            for each in self.same_call(name)
        )
