"""One call as it can be run again: its function, and its arguments with other tensors in the same places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import torch

from torchparity.calls import PLAIN, Call
from torchparity.perturb.autocast import autocasting_kinds

Change = Callable[[Any], Any]
Moved = Literal["none", "first", "all"]  # of the floating-point tensors of a call
Raised = Mapping[torch.dtype, torch.dtype]  # dtypes, and those that take their place
NOTHING_RAISED: Raised = MappingProxyType({})


def no_low_precision(raised: Raised) -> str:
    """Return why a call is left out that has no tensor of the dtypes that are raised."""
    return f"it has no low-precision input{'' if torch.float32 in raised else ', and raise_float32 is off'}"


class CancelledError(Exception):
    """A call that is not perturbed, and why; its text ends no sentence."""


@dataclass
class Subject:
    """The arguments of a call before it ran; `tensors` are those among them, each once, in the order they are met."""

    api: str  # without its number: Torch.matmul
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    tensors: list[torch.Tensor]
    is_autocast: bool = False  # autocast was on when it ran

    def arguments(self, tensors: Sequence[torch.Tensor], change: Change) -> tuple[Any, dict[str, Any]]:
        """Return the arguments with other tensors, and everything else as `change` makes it."""
        by_identity = {id(old): new for old, new in zip(self.tensors, tensors, strict=True)}

        def replaced(value: Any) -> Any:
            return by_identity[id(value)] if isinstance(value, torch.Tensor) else change(value)

        args = tuple(mapped(value, replaced) for value in self.args)
        return args, {key: mapped(value, replaced) for key, value in self.kwargs.items()}


def subject_of(call: Call, found: Sequence[torch.Tensor], stand_in: Change) -> Subject:
    """Return a call's arguments with other tensors than those `found` among them, as `stand_in` makes them.

    Refuses kinds that cannot be copied.
    """
    for tensor in found:
        _check_kind(tensor)
    copies = {id(tensor): stand_in(tensor) for tensor in found}

    def copied(value: Any) -> Any:
        return copies[id(value)] if isinstance(value, torch.Tensor) else value

    args = [mapped(value, copied) for value in call.args]
    kwargs = {key: mapped(value, copied) for key, value in call.kwargs.items()}
    return Subject(call.op.name, args, kwargs, list(copies.values()), is_cast(found))


def is_cast(tensors: Iterable[torch.Tensor]) -> bool:
    """Tell whether autocast is on where one of some tensors is that it would cast."""
    return bool(autocasting_kinds(tensor for tensor in tensors if tensor.is_floating_point()))


def call_tensors(call: Call) -> list[torch.Tensor]:
    """Return a call's tensors as they are now, each once."""
    distinct: dict[int, torch.Tensor] = {}
    for value in (*call.args, *call.kwargs.values()):
        if type(value) in PLAIN:
            distinct[id(value)] = value
        else:
            distinct.update((id(tensor), tensor) for tensor in tensors_of(value))
    return list(distinct.values())


def versions_of(tensors: Iterable[torch.Tensor]) -> list[int]:
    """Return the version counters of tensors; those made in inference mode have none."""
    return [0 if tensor.is_inference() else tensor._version for tensor in tensors]


def mapped(value: Any, change: Change) -> Any:
    """Return a value with everything in its lists, tuples and mappings as `change` makes it."""
    if isinstance(value, torch.Tensor) or not isinstance(value, (list, tuple, dict)) or isinstance(value, torch.Size):
        return change(value)
    if isinstance(value, dict):
        other = copy(value)  # of the same kind, with whatever else it holds
        for key, entry in value.items():
            other[key] = mapped(entry, change)
        return other
    entries = [mapped(entry, change) for entry in value]
    kind: Any = type(value)
    return kind(*entries) if hasattr(kind, "_make") else kind(entries)


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in a value, as `mapped` meets them."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from tensors_of(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from tensors_of(entry)


def _check_kind(tensor: torch.Tensor) -> None:
    if type(tensor) not in PLAIN:
        raise CancelledError(f"an input is a {type(tensor).__name__}")
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise CancelledError("a transformation of torch.func is at work")
    if tensor.device.type == "meta":
        raise CancelledError("an input has no values")
    if not has_plain_values(tensor):
        raise CancelledError("an input is sparse, nested or quantized")


def has_plain_values(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor holds its elements one by one: neither sparse, nested nor quantized."""
    return tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested
