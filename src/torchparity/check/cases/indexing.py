"""Indices of `tensor[...]`: records hold tuples and lists alike, and to indexing they differ."""

from __future__ import annotations

from typing import Any

from torchparity.records import Record, TensorLeaf


def as_index(index: Any, forward: Record) -> Any:
    """Return a recorded index as the tuple it was, unless it was a list of places along the first dimension."""
    if not isinstance(index, list):
        return index
    return list(index) if _is_list_of_places(index, forward) else tuple(index)


def _is_list_of_places(index: list[Any], forward: Record) -> bool:
    if not index or not all(isinstance(entry, (int, bool)) for entry in index):
        return False
    indexed = forward.input_args[0]
    shown = forward.output[0] if forward.output else None
    if not isinstance(indexed, TensorLeaf) or len(index) > len(indexed.shape):
        return True
    if not isinstance(shown, TensorLeaf):
        return False
    return tuple(shown.shape) == (len(index), *indexed.shape[1:]) and len(shown.shape) != len(indexed.shape) - len(
        index
    )
