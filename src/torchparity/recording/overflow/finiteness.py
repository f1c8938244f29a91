"""Finiteness of a call's arguments: tensors in one pass, and numbers among the other arguments."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from torchparity.devices import device_for
from torchparity.recording.measuring.geometry import has_memory, inner, is_measurable, unrepeated
from torchparity.records import ValueLeaf


def has_nonfinite(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor holds nan or an infinity; False where there are no values to look at."""
    tensor = inner(tensor)
    if not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
        return False
    if not is_measurable(tensor) or not has_memory(tensor):
        return False
    values = unrepeated(tensor.detach())[0]
    if values.device.type != "cpu" and device_for(values.device).is_host:
        values = values.cpu()  # looking must not pass through simulated kernels
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    if values.element_size() == 1:
        values = values.float()  # few kernels take 8-bit floats
    smallest, largest = torch.aminmax(values)
    return not (math.isfinite(smallest.item()) and math.isfinite(largest.item()))


def has_nonfinite_number(form: Any) -> bool:
    """Tell whether an argument that is no tensor is nan or infinite: who fills with -inf asks for it."""
    return any(
        isinstance(leaf, ValueLeaf)
        and any(isinstance(number, float) and not math.isfinite(number) for number in _numbers(leaf.value))
        for leaf in _leaves(form)
    )


def slots_in(form: Any) -> set[int]:
    """Return the indexes of the tensors in a form."""
    return {leaf for leaf in _leaves(form) if type(leaf) is int}


def _numbers(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _leaves(form: Any) -> Iterator[Any]:
    if isinstance(form, dict):
        form = tuple(form.values())
    if isinstance(form, (tuple, range)):
        for entry in form:
            yield from _leaves(entry)
    else:
        yield form
