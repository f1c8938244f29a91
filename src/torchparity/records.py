"""The data model of a run, independent of torch and of file formats.

A record is one call of one API or module in one direction. Its arguments are nested
lists and mappings; the leaves of that nest are the types below. An item is one leaf
with its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from torchparity.naming import Direction, flatten

Number = float | int | bool | None


class Statistics(msgspec.Struct, frozen=True, gc=False):
    """Statistics of a tensor's values.

    `max` to `norm` are over all elements, so one NaN makes all four NaN. The `finite_`
    twins leave NaN and infinities out and the counts say how many there were; a tool
    that does not record them leaves None. An empty tensor has counts of 0 and no values.
    `sketch` is 8 signed sums of the finite elements, packed as docs/format.md says; None for
    a tensor of one element, and where a tool has none.
    """

    max: Number = None
    min: Number = None
    mean: Number = None
    norm: Number = None
    finite_max: Number = None
    finite_min: Number = None
    finite_mean: Number = None
    finite_norm: Number = None
    nan_count: int | None = None
    inf_count: int | None = None
    negative_inf_count: int | None = None
    zero_count: int | None = None
    sketch: bytes | None = None

    @classmethod
    def of_finite(
        cls, largest: Number, smallest: Number, mean: Number, norm: Number, zeros: int, sketch: bytes | None = None
    ) -> Statistics:
        """Return the statistics of nearly every tensor: nothing in it is nan or infinite."""
        return cls(largest, smallest, mean, norm, largest, smallest, mean, norm, 0, 0, 0, zeros, sketch)


class PairMetrics(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Distances of a candidate tensor from its baseline, element by element and in float64.

    A nan on both sides, or the same infinity, is equal: such an element counts as a zero
    that is right. Any other element with a nan or an infinity is one of `mismatched`, and all
    else is over the rest. `cosine` is None where exactly one side is nothing but zeros, 1
    where both are; `within_1e3` and `within_5e3` are shares of the elements. Nothing at all is equal.
    """

    count: int
    cosine: float | None
    euclidean: float
    max_abs: float
    max_relative: float
    within_1e3: float
    within_5e3: float
    mismatched: int
    candidate_is_zero: bool
    baseline_is_zero: bool
    has_nonfinite: bool


class Location(msgspec.Struct, frozen=True, gc=False):
    """The place of a tensor's bytes: a shard, the key inside it, and their CRC-32."""

    file: str
    key: str
    crc32: str


class TensorLeaf(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tensor: dtype as torch prints it ("torch.bfloat16"), shape, and what was recorded of it."""

    dtype: str
    shape: tuple[int, ...]
    type: str = "torch.Tensor"
    statistics: Statistics | None = None
    requires_grad: bool | None = None
    checksum: str | None = None
    data_name: str | None = None
    stored_in: Location | None = None
    layout: str | None = None
    origin: int | None = None  # as the file tells it: `RunPart.origins_of` says what it stands for

    @property
    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


class Origin(msgspec.Struct, frozen=True, gc=False):
    """One producer of a tensor's content.

    A "record" is of the same step, an "earlier" one of `step`; parameters and buffers have the model's
    name of them, or "". "outside" was made by no call of the recording, "uninitialised" memory was written by
    nobody, and of an "unknown" origin nobody can tell.
    """

    kind: Literal["record", "earlier", "parameter", "buffer", "outside", "uninitialised", "unknown"]
    name: str = ""
    step: int | None = None


class GroupLeaf(msgspec.Struct, frozen=True, kw_only=True):
    """A process group of torch.distributed."""

    ranks: tuple[int, ...]
    id: str | None = None
    type: str = "torch.ProcessGroup"


class ValueLeaf(msgspec.Struct, frozen=True, gc=False):
    """Any other argument: its type by name and a value that JSON can hold.

    int, float, bool, str: the value. complex: [real, imaginary]. slice: [start, stop, step].
    torch.Size: list of int. torch.dtype, torch.device, torch.memory_format: as torch
    prints them. Ellipsis: None. NumPy scalars: type "float32" and the value.
    Objects with no value of use keep their type's name and None.
    """

    type: str
    value: Any = None


Leaf = TensorLeaf | GroupLeaf | ValueLeaf | None
Nest = Any  # Leaf, or list[Nest], or dict[str, Nest]: msgspec and mypy have no use for the recursion
LEAF_TYPES = (TensorLeaf, GroupLeaf, ValueLeaf)
_NONFINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Item(msgspec.Struct, frozen=True, gc=False):
    """One leaf of a record: `input.0`, `input.weight`, `output.1`, `parameters.bias`."""

    name: str
    role: str
    leaf: Leaf


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call of one API or module, one direction.

    Forward fills inputs, outputs and, for a module, parameters. In backward `input_args`
    are the gradients of the forward outputs and `output`/`output_kwargs` those of the
    forward arguments, each at its argument's place. parameters_grad fills `gradients`,
    a single point `value`.
    """

    name: str
    direction: Direction
    input_args: list[Nest] = msgspec.field(default_factory=list)
    input_kwargs: dict[str, Nest] = msgspec.field(default_factory=dict)
    output: list[Nest] = msgspec.field(default_factory=list)
    output_kwargs: dict[str, Nest] = msgspec.field(default_factory=dict)
    parameters: dict[str, Nest] | None = None
    gradients: dict[str, Nest] = msgspec.field(default_factory=dict)
    value: Nest = None
    is_recompute: bool = False
    in_backward: bool = False
    error: str | None = None
    seconds: float | None = None

    def items(self) -> list[Item]:
        """Return every leaf with its name: inputs, keyword inputs, parameters, outputs."""
        items: list[Item] = []
        _add_items(items, "input", enumerate(self.input_args))
        if self.input_kwargs:
            _add_items(items, "input", self.input_kwargs.items())
        if self.parameters:
            _add_items(items, "parameters", self.parameters.items())
        _add_items(items, "output", enumerate(self.output))
        if self.output_kwargs:
            _add_items(items, "output", self.output_kwargs.items())
        for name, nest in self.gradients.items():
            items += _items(name, "parameters_grad", nest)
        if self.direction == "debug":
            for item, leaf in flatten("", self.value, LEAF_TYPES):
                items.append(Item(item.removeprefix("."), "value", _leaf(leaf)))
        return items

    def tensors(self) -> Iterator[TensorLeaf]:
        """Yield every tensor, without the names that `items` makes for it."""
        nests: list[Nest] = [self.input_args, self.input_kwargs, self.parameters, self.output, self.output_kwargs]
        nests += [self.gradients, self.value]
        while nests:
            nest = nests.pop()
            if isinstance(nest, TensorLeaf):
                yield nest
            elif isinstance(nest, dict):
                nests += nest.values()
            elif isinstance(nest, (list, tuple)):
                nests += nest

    def replace_tensors(self, change: Callable[[str, TensorLeaf], TensorLeaf]) -> Record:
        """Return the record with `change(item name, leaf)` in place of every tensor."""
        return msgspec.structs.replace(
            self,
            input_args=_replace("input", self.input_args, change),
            input_kwargs=_replace("input", self.input_kwargs, change),
            output=_replace("output", self.output, change),
            output_kwargs=_replace("output", self.output_kwargs, change),
            parameters=_replace("parameters", self.parameters, change),
            gradients=_replace("", self.gradients, change),
            value=_replace("", self.value, change),
        )

    def item_name(self, item: str) -> str:
        """Return the item's full name, unique in a run."""
        return f"{self.name}.{item}" if item else self.name


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a dump.json: facts about the run."""

    task: str = "statistics"
    level: str = "L1"
    framework: str = "pytorch"
    dump_data_dir: str | None = None
    tool: str | None = None
    run_id: str | None = None
    environment: dict[str, str] = msgspec.field(default_factory=dict)  # docs/environment.md has the keys
    has_every_call: bool = False  # of an API, with all that it received and returned: no setting leaves any out


class StackGroup(msgspec.Struct, frozen=True):
    """A call stack and the records that were called from it, innermost frame first."""

    records: list[str]
    frames: list[str]


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table in its final form, for a writer to write; every format holds the same cells.

    `frame` is a polars.DataFrame of text, numbers, booleans and None. A column that holds both
    numbers and words ("N/A", "unsupported") is a column of text; `numeric` names those in which a
    cell that reads as a number is one. In any other text column "12345678" stays text: it may
    be a checksum. `colours` has None, "red" or "yellow" for each row, or is empty.
    """

    frame: Any
    title: str
    numeric: frozenset[str] = frozenset()
    colours: list[str | None] = msgspec.field(default_factory=list)


def number_to_json(value: Any) -> Any:
    """Return a number as strict JSON can hold it: nan and the infinities become words."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def number_from_json(value: Any) -> Any:
    """Return the number that `number_to_json` wrote; anything else as it is."""
    return _NONFINITE.get(value, value) if isinstance(value, str) else value


def _replace(name: str, nest: Nest, change: Callable[[str, TensorLeaf], TensorLeaf]) -> Nest:
    if isinstance(nest, TensorLeaf):
        return change(name, nest)
    prefix = f"{name}." if name else ""
    if isinstance(nest, dict):
        return {key: _replace(f"{prefix}{key}", entry, change) for key, entry in nest.items()}
    if isinstance(nest, (list, tuple)):
        return [_replace(f"{prefix}{index}", entry, change) for index, entry in enumerate(nest)]
    return nest


def _add_items(items: list[Item], role: str, arguments: Iterable[tuple[int | str, Nest]]) -> None:
    for key, nest in arguments:
        if nest.__class__ in LEAF_TYPES:  # nearly every argument
            items.append(Item(f"{role}.{key}", role, nest))
        else:
            items += _items(f"{role}.{key}", role, nest)


def _items(name: str, role: str, nest: Nest) -> list[Item]:
    return [Item(path, role, _leaf(leaf)) for path, leaf in flatten(name, nest, LEAF_TYPES)]


def _leaf(value: Any) -> Leaf:
    """Return an empty list or mapping as the leaf it is."""
    if value is None or isinstance(value, LEAF_TYPES):
        return value
    return ValueLeaf("dict" if isinstance(value, Mapping) else "list", None)
