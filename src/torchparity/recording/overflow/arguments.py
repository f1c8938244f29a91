"""A call's tensors, kept until it is known whether the call overflowed."""

from __future__ import annotations

import weakref
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

    They are held without their graph, which would hold them in turn, until `release`; then, and where the training
    saves less than autograd would, by checkpointing, say, as long as somebody else holds them. Where one is gone, was
    written since, or had its memory freed, it is no longer what the call received, and only its form is recorded.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = [(weakref.ref(tensor), version_of(tensor), form_of(tensor)) for tensor in tensors]
        self._held = None if _saves_less() else [tensor.detach() for tensor in tensors]
        self.with_gradient = {slot for slot, tensor in enumerate(tensors) if tensor.requires_grad}

    def release(self) -> None:
        """Hold the tensors no longer: their gradients have come."""
        self._held = None

    def observe(self, measurements: MeasurementCache) -> list[ObservedTensor]:
        """Measure the tensors and copy their values."""
        observed = []
        for slot, (_, version, form) in enumerate(self._tensors):
            tensor = self._tensor(slot)
            if tensor is not None and version_of(tensor) == version and has_memory(inner(tensor)):
                observed.append(observe_whole(measurements, tensor))
                observed[-1].requires_grad = form.requires_grad
            else:
                observed.append(form)
        return observed

    def has_nonfinite(self, besides: set[int]) -> bool:
        """Tell whether a tensor is not finite, but for those whose former content the call does not read."""
        tensors = [self._tensor(slot) for slot in range(len(self._tensors)) if slot not in besides]
        return any(has_nonfinite(tensor) for tensor in tensors if tensor is not None)

    def _tensor(self, slot: int) -> torch.Tensor | None:
        return self._held[slot] if self._held is not None else self._tensors[slot][0]()


class CopiedTensors:
    """The arguments of a call that may overwrite them: looked at and copied before it runs."""

    def __init__(self, tensors: Sequence[torch.Tensor], unread: set[int], measurements: MeasurementCache) -> None:
        self._has_nonfinite = any(has_nonfinite(tensor) for slot, tensor in enumerate(tensors) if slot not in unread)
        self.with_gradient = {slot for slot, tensor in enumerate(tensors) if tensor.requires_grad}
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors if not tensor.is_nested)
        if self._has_nonfinite or size > _MOST_COPIED:
            self._observed = [form_of(tensor) for tensor in tensors]
        else:
            self._observed = [observe_whole(measurements, tensor) for tensor in tensors]
            measurements.flush()

    def release(self) -> None:
        """Do nothing: these are copies, and another backward pass may come."""

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


def _saves_less() -> bool:
    """Tell whether hooks decide what autograd saves: checkpointing recomputes it, others keep it elsewhere."""
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return top is not None and top(False) is not None


def form_of(tensor: torch.Tensor) -> ObservedTensor:
    """Return a tensor as it is recorded without its numbers."""
    shape = (int(tensor.size(0)),) if tensor.is_nested else tuple(tensor.shape)
    layout = "nested" if tensor.is_nested else None
    return ObservedTensor(tensor.dtype, shape, tensor.requires_grad, None, layout)


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
    return has_nonfinite_number(flat.args_form or ()) or has_nonfinite_number(flat.kwargs_form or {})
