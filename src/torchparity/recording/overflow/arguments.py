"""A call's tensors, kept until it is known whether the call overflowed."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchparity.calls import Call
from torchparity.overwrites import is_overwritten
from torchparity.recording.measuring.geometry import has_memory, inner, version_of
from torchparity.recording.measuring.measurement_cache import MeasurementCache
from torchparity.recording.measuring.observed import ObservedTensor
from torchparity.recording.overflow.finiteness import has_nonfinite, has_nonfinite_number, slots_in

_MOST_COPIED = 256 << 20  # bytes that are copied of the arguments of one call that may overwrite them


class KeptTensors:
    """The arguments of a call that does not write them.

    They are held without their graph, which would hold them in turn. Where one was written since, or its
    memory was freed, it is no longer what the call received, and only its form is recorded.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = [(tensor.detach(), version_of(tensor), tensor.requires_grad) for tensor in tensors]

    def observe(self, measurements: MeasurementCache) -> list[ObservedTensor]:
        """Measure the tensors and copy their values."""
        observed = []
        for tensor, version, requires_grad in self._tensors:
            is_there = version_of(tensor) == version and has_memory(inner(tensor))
            observed.append(observe_whole(measurements, tensor) if is_there else form_of(tensor))
            observed[-1].requires_grad = requires_grad
        return observed

    def has_nonfinite(self, besides: set[int]) -> bool:
        """Tell whether a tensor is not finite, but for those whose former content the call does not read."""
        return any(has_nonfinite(tensor) for slot, (tensor, _, _) in enumerate(self._tensors) if slot not in besides)


class CopiedTensors:
    """The arguments of a call that may overwrite them: looked at and copied before it runs."""

    def __init__(self, tensors: Sequence[torch.Tensor], unread: set[int], measurements: MeasurementCache) -> None:
        self._has_nonfinite = any(has_nonfinite(tensor) for slot, tensor in enumerate(tensors) if slot not in unread)
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors if not tensor.is_nested)
        if self._has_nonfinite or size > _MOST_COPIED:
            self._observed = [form_of(tensor) for tensor in tensors]
        else:
            self._observed = [observe_whole(measurements, tensor) for tensor in tensors]
            measurements.flush()

    def observe(self, measurements: MeasurementCache) -> list[ObservedTensor]:
        """Return the copies."""
        return self._observed

    def has_nonfinite(self, besides: set[int]) -> bool:
        """Tell whether a tensor was not finite."""
        return self._has_nonfinite


Kept = KeptTensors | CopiedTensors


def observe_whole(measurements: MeasurementCache, tensor: torch.Tensor) -> ObservedTensor:
    """Measure a tensor and copy its values; of its origin nothing is known, since no other call was recorded."""
    observed = measurements.observe(tensor, remember=False, keep_values=True)
    observed.source = None
    return observed


def form_of(tensor: torch.Tensor) -> ObservedTensor:
    """Return a tensor as it is recorded without its numbers."""
    return ObservedTensor(tensor.dtype, tuple(tensor.shape), tensor.requires_grad, None)


def unread_slots(call: Call) -> set[int]:
    """Return the indexes of arguments whose former content the call never reads."""
    flat = call.inputs.walked()
    unread: set[int] = set()
    for place, form in enumerate(flat.args_form or ()):
        if is_overwritten(call.name, f"input.{place}"):
            unread |= slots_in(form)
    for key, form in (flat.kwargs_form or {}).items():
        if is_overwritten(call.name, f"input.{key}"):
            unread |= slots_in(form)
    return unread


def has_asked_for_it(call: Call) -> bool:
    """Tell whether an argument that is no tensor is nan or infinite."""
    flat = call.inputs.walked()
    return has_nonfinite_number(flat.args_form or []) or has_nonfinite_number(flat.kwargs_form or {})
