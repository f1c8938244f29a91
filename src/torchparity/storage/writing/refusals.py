"""Checks of a writer's arguments: choices that do not exist, and values that could not be read back."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from torchparity.errors import ConfigError, nearest
from torchparity.records import Leaf, Record, TensorLeaf
from torchparity.storage.writing.shared_tensor import SharedTensor
from torchparity.tensors import HostTensor


def check_choice(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(
            f"{field} {value!r} does not exist.{nearest(value, choices)} There are: {', '.join(choices)}."
        )


def check_number(field: str, value: int) -> None:
    if value < 0:
        raise ConfigError(f"{field} {value} is negative; it must be 0 or more.")


def checked(record: Record, tensors: Mapping[str, HostTensor | SharedTensor]) -> dict[str, SharedTensor]:
    """Refuse values that could not be read back: of items that do not exist, or have another dtype or shape."""
    leaves: dict[str, Leaf] = {}
    for item in record.items():
        if item.name in leaves:
            raise ConfigError(f"record {record.name} has two items named {item.name!r}; rename a key that holds a dot.")
        leaves[item.name] = item.leaf
    for name, tensor in tensors.items():
        leaf = leaves.get(name)
        if not isinstance(tensor, (HostTensor, SharedTensor)):
            raise ConfigError(
                f"the values of {name} are a {type(tensor).__name__}; from_torch makes the HostTensor that is wanted."
            )
        if not isinstance(leaf, TensorLeaf):
            raise ConfigError(f"record {record.name} has no tensor {name!r}.{nearest(name, leaves)}")
        # The same values may be shared by views of other shapes.
        same_shape = leaf.shape == tensor.shape or (
            isinstance(tensor, SharedTensor) and leaf.numel == prod(tensor.shape)
        )
        if leaf.dtype != tensor.dtype or not same_shape:
            raise ConfigError(
                f"{record.name}.{name} is recorded as {leaf.dtype} {list(leaf.shape)} "
                f"but its values are {tensor.dtype} {list(tensor.shape)}."
            )
    return {
        name: SharedTensor(tensor) if isinstance(tensor, HostTensor) else tensor for name, tensor in tensors.items()
    }
