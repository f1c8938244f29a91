"""Arguments of a recorded call, rebuilt: tensors from their values or drawn at random, and all else from its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torchparity.check.cases.case import Case
from torchparity.check.cases.drawing import Draws, drawn, torch_dtype
from torchparity.check.cases.generators import generator_for
from torchparity.check.cases.indexing import as_index
from torchparity.check.cases.refusal import CannotRun
from torchparity.errors import ParityError
from torchparity.records import GroupLeaf, Nest, TensorLeaf, ValueLeaf, number_from_json
from torchparity.storage import RunPart
from torchparity.tensors.torch_tensors import to_torch

_PLAIN = ("int", "float", "bool", "str")
_NAMED = ("torch.memory_format", "torch.layout")


@dataclass(frozen=True, eq=False)
class Input:
    """A tensor among the arguments: its place ("0", "1.2", "weight") and its values, on the CPU."""

    path: str
    tensor: torch.Tensor
    requires_grad: bool


@dataclass(frozen=True)
class DeviceWord:
    """A device among the arguments: the device of the run at hand takes its place."""

    recorded: str


@dataclass(frozen=True)
class DtypeWord:
    """A dtype among the arguments: the reference has a wider one in its place."""

    dtype: torch.dtype


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call; the leaves of their nest are Python values and the types above."""

    args: list[Any]
    kwargs: dict[str, Any]
    is_real: bool  # False where any tensor was drawn

    def inputs(self) -> list[Input]:
        """Return the tensors in the order of the arguments."""
        return _inputs_in([self.args, self.kwargs])

    def mapped(self, change: Callable[[Any], Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments with `change(leaf)` in place of every leaf."""
        return _mapped(self.args, change), _mapped(self.kwargs, change)


def rebuilt(case: Case) -> Arguments:
    """Return the arguments of a call; raise `CannotRun` where one cannot be rebuilt."""
    builder = _Builder(case)
    args = [builder.build(str(place), nest) for place, nest in enumerate(case.forward.input_args)]
    kwargs = {key: builder.build(key, nest) for key, nest in case.forward.input_kwargs.items()}
    if case.operator in ("__getitem__", "__setitem__") and len(args) > 1:
        args[1] = as_index(args[1], case.forward)
    return Arguments(args, kwargs, not builder.has_drawn)


def stored_values(part: RunPart, leaf: TensorLeaf) -> torch.Tensor | None:
    """Return the recorded values of a tensor; None where none were stored."""
    if leaf.data_name is None:
        return None
    try:
        return to_torch(part.tensor(leaf))
    except ParityError as error:
        raise CannotRun(f"recorded values cannot be read: {str(error).rstrip('.')}") from None


class _Builder:
    def __init__(self, case: Case) -> None:
        self._case, self.has_drawn = case, False

    def build(self, path: str, nest: Nest) -> Any:
        if isinstance(nest, TensorLeaf):
            return self._tensor(path, nest)
        if isinstance(nest, Mapping):
            return {key: self.build(f"{path}.{key}", entry) for key, entry in nest.items()}
        if isinstance(nest, (list, tuple)):
            return [self.build(f"{path}.{place}", entry) for place, entry in enumerate(nest)]
        if isinstance(nest, GroupLeaf):
            raise CannotRun("it takes a process group, which a single process does not have")
        if nest is None:
            return None
        return DeviceWord(str(nest.value)) if self._is_device(path, nest) else _value(path, nest)

    def _is_device(self, path: str, leaf: ValueLeaf) -> bool:
        """Tell whether a text or a number is a device: `zeros(2, device="cuda")`, `tensor.to("cuda")`."""
        is_named = path == "device" and leaf.type in ("str", "int")
        return is_named or (self._case.operator == "to" and path == "1" and leaf.type == "str")

    def _tensor(self, path: str, leaf: TensorLeaf) -> Input:
        if leaf.type == "numpy.ndarray":
            raise CannotRun(f"argument {path} is a NumPy array, whose values are not recorded")
        if leaf.layout is not None and "strided" not in leaf.layout:
            raise CannotRun(f"argument {path} is a tensor of layout {leaf.layout}, which cannot be rebuilt")
        values = stored_values(self._case.part, leaf)
        if values is None:
            self.has_drawn = True
            values = self._drawn(path, leaf)
        return Input(path, values, leaf.requires_grad is not False)

    def _drawn(self, path: str, leaf: TensorLeaf) -> torch.Tensor:
        draws = Draws(f"{self._case.forward.name}.input.{path}")
        if path == "out" or path.startswith("out."):
            return torch.zeros(leaf.shape, dtype=torch_dtype(leaf.dtype))
        generator = generator_for(self._case.operator, path)
        if generator is not None:
            return generator(self._case.forward, leaf, draws)
        return drawn(leaf, draws)


def _value(path: str, leaf: ValueLeaf) -> Any:
    kind, value = leaf.type, number_from_json(leaf.value)
    if kind in _PLAIN:
        return float(value) if kind == "float" and value is not None else value
    if kind == "complex":
        return complex(*map(number_from_json, leaf.value))
    if kind == "slice" and not any(isinstance(bound, str) for bound in leaf.value):
        return slice(*leaf.value)
    if kind == "Ellipsis":
        return Ellipsis
    if kind == "torch.Size":
        return torch.Size(leaf.value)
    if kind == "torch.dtype":
        return DtypeWord(torch_dtype(value))
    if kind == "torch.device":
        return DeviceWord(value)
    if kind in _NAMED:
        return getattr(torch, value.removeprefix("torch."))
    if kind in ("list", "tuple", "dict") and value is None:
        return {} if kind == "dict" else []
    if kind.endswith("Generator"):
        return None
    if value is not None and isinstance(value, (int, float)):
        return value  # a NumPy scalar
    raise CannotRun(f"argument {path} is a {kind}, of which a record holds no value")


def _mapped(nest: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(nest, dict):
        return {key: _mapped(entry, change) for key, entry in nest.items()}
    if isinstance(nest, tuple) and not isinstance(nest, torch.Size):
        return tuple(_mapped(entry, change) for entry in nest)
    if isinstance(nest, list):
        return [_mapped(entry, change) for entry in nest]
    return change(nest)


def _inputs_in(nest: Any) -> list[Input]:
    if isinstance(nest, Input):
        return [nest]
    if isinstance(nest, dict):
        nest = list(nest.values())
    if isinstance(nest, (list, tuple)):
        return [found for entry in nest for found in _inputs_in(entry)]
    return []
