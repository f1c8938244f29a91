"""Measuring one tensor: queued for an arena where there is one for it, else at once on the host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from torchparity.devices import device_for
from torchparity.kernels.checksums import crc_checksum, xor_checksum
from torchparity.kernels.cpu import CpuKernel
from torchparity.recording.measuring.arenas import Arenas
from torchparity.recording.measuring.buffer_pool import BufferPool
from torchparity.recording.measuring.geometry import name_of, unrepeated
from torchparity.recording.measuring.observed import Measurement
from torchparity.recording.measuring.pending import ExpandedMeasurement, PendingMeasurements
from torchparity.storage import SharedTensor
from torchparity.tensors import HostTensor
from torchparity.tensors.torch_tensors import from_torch, memory

_HALVES = (torch.float16, torch.bfloat16)
_MOST_EXPANDED = 1 << 22  # elements of an expanded tensor that is measured in full, as its sketch asks for
_innermost_transform = torch._C._functorch.peek_interpreter_stack
Store = Callable[[SharedTensor], None]


@dataclass(frozen=True)
class MeasurementOptions:
    """The values that a task records of every tensor besides its statistics."""

    checksum: bool = False
    values: bool = False
    xor: bool = False  # another checksum, and no statistics
    by_shape: bool = False  # the format stores a tensor with its shape, so a reshaped view is another tensor

    @property
    def allows_zero_copy(self) -> bool:
        """True where an arena measures everything that is recorded."""
        return not self.values and not self.xor


class Measurer:
    """Measures tensors for one recording; `measure` expects strided tensors with memory."""

    def __init__(self, options: MeasurementOptions, *, exact: bool, store: Store | None = None) -> None:
        self.options = options
        self.arenas = Arenas(exact=exact, checksums=options.checksum)
        self.queued: list[torch.Tensor] = []  # keeps the tensors alive until the arenas are flushed
        self._store, self._buffers = store, BufferPool()
        self._kernel = CpuKernel(exact=exact)
        self._expanded: list[ExpandedMeasurement] = []

    def measure(self, tensor: torch.Tensor) -> Measurement:
        """Return the measurement of a tensor, which may be filled in only when the step ends."""
        with _outside_of_transforms():
            measurement = Measurement()
            if self.options.values:
                measurement.values = self.copy(tensor)
            if self.options.xor:
                measurement.checksum = xor_checksum(from_torch(tensor))
            elif 0 in tensor.stride() and not self.options.checksum:
                self._measure_expanded(tensor, measurement)
            else:
                self._queue_or_measure(tensor, measurement)
            return measurement

    def copy(self, tensor: torch.Tensor) -> SharedTensor:
        """Return a copy of the values, which goes to the disk ahead of its records where `store` was given."""
        with _outside_of_transforms():
            values = SharedTensor(*device_for(tensor.device).copy_to_host(tensor, self._buffers))
        if self._store is not None:
            self._store(values)
        return values

    def take_step(self) -> PendingMeasurements:
        """Start over; return the measurements that `measure` left open."""
        expanded, self._expanded = self._expanded, []
        return PendingMeasurements(self.arenas.take_step(), expanded)

    def _measure_expanded(self, tensor: torch.Tensor, measurement: Measurement) -> None:
        elements, times = unrepeated(tensor)
        is_one_number = elements.numel() == 1 and not tensor.is_complex()
        if not is_one_number and tensor.numel() <= _MOST_EXPANDED:
            self._queue_or_measure(tensor, measurement)
            return
        once = Measurement()
        dtype = name_of(tensor.dtype) if is_one_number else None
        self._expanded.append(ExpandedMeasurement(measurement, once, times, dtype))
        self._queue_or_measure(elements, once)

    def _queue_or_measure(self, tensor: torch.Tensor, measurement: Measurement) -> None:
        if not self._queue(tensor, measurement):
            measurement.statistics = self._kernel.statistics(_on_host(tensor))
            if self.options.checksum:
                measurement.checksum = crc_checksum(from_torch(tensor))

    def _queue(self, tensor: torch.Tensor, measurement: Measurement) -> bool:
        """Add a tensor to the queue of its arena; False where there is none."""
        if not tensor.numel():
            return False
        arena = self.arenas.slot(tensor.dtype, tensor.device)
        if arena is None and tensor.dtype in _HALVES and not self.options.checksum:
            arena = self.arenas.slot(torch.float32, tensor.device)
            tensor = tensor.detach().float() if arena is not None else tensor
        if arena is None:
            return False
        if tensor.is_neg():
            tensor = tensor.detach().resolve_neg()
        if not tensor.is_contiguous():
            tensor = tensor.detach().contiguous()  # checksums and sketches go by the order of the elements
        self.queued.append(tensor)
        arena.add(tensor, tensor.data_ptr(), tensor.numel(), arena.dtype, measurement)
        return True


def is_copied(stride: tuple[int, ...]) -> bool:
    """Tell whether a strided tensor is measured as a plain copy: an expanded one is not, nor any inside a transform."""
    return 0 not in stride and _innermost_transform() is None


def _outside_of_transforms() -> AbstractContextManager[object]:
    """Compute with plain tensors as plain ones: inside torch.func.grad, say, the results would be wrapped."""
    return nullcontext() if _innermost_transform() is None else torch._C._DisableFuncTorch()


def _on_host(tensor: torch.Tensor) -> HostTensor:
    """Return the values for statistics, without a copy where they are on the host; torch widens halves faster."""
    plain = tensor.detach().cpu()
    if plain.dtype in _HALVES:
        plain = plain.float()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    return HostTensor(name_of(plain.dtype), memory(plain))
