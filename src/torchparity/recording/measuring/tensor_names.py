"""Names of a model's parameters and buffers, found by the address of their storage."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from torchparity.recording.measuring.geometry import inner


class _Named(NamedTuple):
    """A parameter or buffer, by the module that has it: no reference to the tensor is kept."""

    text: str
    owner: weakref.ref[nn.Module]
    key: str
    is_parameter: bool

    def is_at(self, address: int) -> bool:
        """Tell whether it is still there: it may have been replaced, and its memory used again."""
        owner = self.owner()
        if owner is None:
            return False
        tensors = owner._parameters if self.is_parameter else owner._buffers
        tensor = tensors[self.key] if self.key in tensors else None  # noqa: SIM401 - a scripted module has no get
        return tensor is not None and _address_of(tensor) == address


class TensorNames:
    """Looks the models through when a tensor is first asked for, and once more in a step where a parameter is new."""

    def __init__(self) -> None:
        self._models: list[tuple[str, weakref.ref[nn.Module]]] = []
        self._by_address: dict[int, list[_Named]] | None = None
        self._is_fresh = False

    def use(self, models: nn.Module | Sequence[nn.Module] | None) -> None:
        """Take the names from these models; those of several begin with the model's index."""
        named: list[tuple[str, weakref.ref[nn.Module]]] = []
        if isinstance(models, nn.Module):
            named = [("", weakref.ref(models))]
        elif models is not None:
            named = [(f"{index}.", weakref.ref(model)) for index, model in enumerate(models)]
        if named != self._models:  # else nearly all of them are where they were
            self._models, self._by_address, self._is_fresh = named, None, False

    def add(self, model: nn.Module) -> None:
        """Take the names from this model too."""
        if not any(reference() is model for _, reference in self._models):
            self._models, self._by_address, self._is_fresh = [*self._models, ("", weakref.ref(model))], None, False

    def forget(self) -> None:
        """Look the models through again before a name is missed."""
        self._is_fresh = False

    def find(self, tensor: torch.Tensor, address: int) -> list[str]:
        """Return "parameter NAME" or "buffer NAME" of a storage; several where it is shared by several."""
        if self._by_address is None or (isinstance(tensor, nn.Parameter) and address not in self._by_address):
            self._look_through()
        found = [named for named in (self._by_address or {}).get(address, ()) if named.is_at(address)]
        return [named.text for named in found]

    def _look_through(self) -> None:
        if self._is_fresh:
            return
        self._is_fresh = True
        by_address: dict[int, list[_Named]] = {}
        views: set[tuple[int, int, int]] = set()
        for prefix, reference in self._models:
            model = reference()
            for named, tensor in _named_tensors(prefix, model) if model is not None else ():
                address = _address_of(tensor)
                if address is not None:
                    view = (address, int(tensor.storage_offset()), tensor.numel())
                    if view not in views:  # tied: the first name
                        views.add(view)
                        by_address.setdefault(address, []).append(named)
        self._by_address = by_address


def _named_tensors(prefix: str, model: nn.Module) -> Iterator[tuple[_Named, torch.Tensor]]:
    for path, module in model.named_modules():
        inside = f"{prefix}{path}." if path else prefix
        owner = weakref.ref(module)
        for kind, tensors in (("parameter", module._parameters), ("buffer", module._buffers)):
            for key, tensor in tensors.items():
                if tensor is not None:
                    yield _Named(f"{kind} {inside}{key}", owner, key, kind == "parameter"), tensor


def _address_of(tensor: torch.Tensor) -> int | None:
    if is_lazy(tensor):
        return None
    try:
        return int(inner(tensor).untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):  # it has no memory
        return None
