"""Measures each tensor once: statistics, checksum or a copy, by what the task keeps.

The same tensor at the same version is not looked at twice. A tensor is known by its
memory, offset, shape and stride.

Tensors wait for `flush`, which measures all of them in one go; what came out is filled in
by `finish`, when the step ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import torch

from torchparity.kernels.arenas.portable import PortableArena, is_portable
from torchparity.kernels.cpu import CpuKernel
from torchparity.kernels.xor import xor_checksum
from torchparity.recording.measuring.arenas import Arenas, ArenaSlot
from torchparity.recording.measuring.buffer_pool import BufferPool
from torchparity.recording.measuring.geometry import (
    PLAIN,
    copied,
    has_holes,
    has_memory,
    inner,
    is_dense,
    is_measurable,
    repeated,
    unrepeated,
    widened,
)
from torchparity.recording.measuring.observed import Measurement, ObservedTensor
from torchparity.recording.measuring.storage_generations import StorageGenerations
from torchparity.storage import SharedTensor
from torchparity.tensors.torch_tensors import from_torch

_LOW = (torch.float16, torch.bfloat16)
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_transform = torch._C._functorch.peek_interpreter_stack
Store = Callable[[SharedTensor], None]


@dataclass(frozen=True)
class Kept:
    """What a task keeps of every tensor."""

    checksum: bool = False
    values: bool = False
    xor: bool = False  # another checksum, and no statistics
    by_shape: bool = False  # the format stores a tensor with its shape, so a reshaped view is another tensor


def _seen(tensor: torch.Tensor, measurement: Measurement) -> ObservedTensor:
    return ObservedTensor(tensor.dtype, tuple(tensor.shape), tensor.requires_grad, measurement)


def _unmeasured(tensor: torch.Tensor) -> ObservedTensor:
    return ObservedTensor(tensor.dtype, tuple(tensor.shape), tensor.requires_grad, None, _form(tensor))


def _form(tensor: torch.Tensor) -> str | None:
    if tensor.is_meta:
        return "meta"
    return None if tensor.layout is torch.strided else str(tensor.layout).removeprefix("torch.")


def _outside_of_transforms() -> AbstractContextManager[object]:
    """Compute with plain tensors as plain ones: inside torch.func.grad, say, what comes out would be wrapped."""
    return nullcontext() if _transform() is None else torch._C._DisableFuncTorch()


class MeasurementCache:
    """Looks at tensors for one recording; `finish` at the end of each step."""

    def __init__(self, kept: Kept, *, exact: bool, store: Store | None = None) -> None:
        self._kept = kept
        self._store, self._buffers = store, BufferPool()
        self._kernel = CpuKernel(exact=exact)
        self.lock = threading.RLock()
        self._seen: dict[Any, ObservedTensor] = {}
        self._measured: dict[Any, Measurement] = {}
        self.generations = StorageGenerations()
        self._arenas = Arenas(exact=exact, checksums=kept.checksum)
        self._portable = PortableArena()
        self._portable_open: list[tuple[Measurement, int]] = []
        self._repeated: list[tuple[Measurement, Measurement, int]] = []  # expanded tensors, each element once
        self._waiting: list[torch.Tensor] = []
        self._is_plain = not kept.values and not kept.xor
        from torchparity.recording.measuring.tensor_lists import ListCache

        self._lists = ListCache(self)

    def observe(self, tensor: torch.Tensor, *, remember: bool = True, keep_values: bool = False) -> ObservedTensor:
        observed = self._observe(tensor, keep=remember)
        if keep_values and observed.measurement is not None and observed.measurement.values is None:
            observed.measurement.values = self.copy(inner(tensor))
        return observed

    def observe_all(
        self, tensors: Sequence[torch.Tensor], *, remember: bool = True, keep_values: bool = False
    ) -> list[ObservedTensor]:
        if remember and not keep_values and len(tensors) >= 8 and set(map(type, tensors)) <= PLAIN:
            seen = self._lists.observe(tensors)
            if seen is not None:
                return list(seen.tensors)
        if keep_values:
            return [self.observe(tensor, remember=remember, keep_values=True) for tensor in tensors]
        return [self._observe(tensor, keep=remember) for tensor in tensors]

    def _observe(self, tensor: torch.Tensor, *, keep: bool = True) -> ObservedTensor:
        """Return what is known of a tensor, adding it to what waits if need be; without `keep` it is not remembered."""
        if type(tensor) not in PLAIN:
            tensor = getattr(tensor, "_local_tensor", tensor)  # a sharded tensor: what this rank has of it
            if tensor.is_nested:
                return self._nested(tensor, keep=keep)
        try:
            memory = tensor.untyped_storage()
            dtype = tensor.dtype
            look = (
                self.generations.numbers.get(memory._cdata),
                tensor._version,
                tensor.storage_offset(),
                tuple(tensor.shape),  # a Size would be walked by the garbage collector
                tensor.stride(),
                dtype,
                tensor.requires_grad,
                tensor.is_neg(),
                dtype.is_complex and tensor.is_conj(),
            )
            found = self._seen.get(look)
        except (RuntimeError, NotImplementedError, TypeError):
            # No storage, or a tensor of inference, which has no version, or a symbol for a size, which has no hash.
            return self._unversioned(tensor)
        if found is not None and keep:
            return found
        with self.lock:
            if keep and self._is_plain:
                found = self._where_it_lies(tensor, memory, look)
                if found is not None:
                    return found
            return self._first_sight(tensor, memory, look, keep=keep)

    @property
    def takes_lists(self) -> bool:
        """Whether tensors may be measured many at a time: not where a copy or a sum of each is kept."""
        return self._is_plain and not self._arenas.has_broken

    def arena_for(self, dtype: torch.dtype, device: torch.device) -> ArenaSlot | None:
        """Return what measures such tensors where they lie, None where nothing does."""
        return self._arenas.of(dtype, device)

    def measure_all(
        self, tensors: Sequence[torch.Tensor], addresses: Sequence[int], seen: Sequence[ObservedTensor]
    ) -> None:
        """Add tensors of one arena to what waits, at a version at which nobody saw them."""
        arena = seen[0].arena
        with self.lock:
            self._waiting += tensors
            counts, owners = [entry.count for entry in seen], [entry.measurement for entry in seen]
            arena.add_all(addresses, counts, arena.dtype, owners)

    def remember_all(self, looks: Sequence[Any], seen: Sequence[ObservedTensor]) -> None:
        """Know tensors that were measured together when they are seen one by one."""
        with self.lock:
            self._seen.update(zip(looks, seen, strict=True))
            for look, entry in zip(looks, seen, strict=True):
                place = (look[0], look[2], look[5], (look[3], look[4]) if self._kept.by_shape else entry.count)
                if entry.measurement is not None:
                    self._measured[place] = entry.measurement

    def flush(self) -> None:
        """Measure what waits: from here on those tensors may change, and be gone."""
        if self._waiting:
            with self.lock:
                failure = self._arenas.flush()
                self._waiting.clear()
            if failure is not None:
                raise failure

    def never_cache(self, *tensors: torch.Tensor) -> None:
        """Somebody got at the memory itself: it may change from now on without a new version."""
        self.flush()
        with self.lock:
            for tensor in map(inner, tensors):
                if is_measurable(tensor) and has_memory(tensor):
                    self.generations.never_cache(tensor.untyped_storage())

    def invalidate_all(self) -> None:
        """Forget what was known of every memory: something wrote that nobody saw."""
        with self.lock:
            self.generations.drop_all()

    def moved_on(self, storages: Sequence[int], versions: Sequence[int]) -> None:
        with self.lock:
            self.generations.moved_on(storages, versions)

    def copy(self, tensor: torch.Tensor) -> SharedTensor:
        """Return the values as they are now, on their way to the disk where they can go ahead of their records."""
        with _outside_of_transforms():
            values = copied(tensor, self._buffers)
        if self._store is not None:
            self._store(values)
        return values

    def invalidate(self, *tensors: torch.Tensor) -> None:
        """Forget what was known of the tensors' memory: it was written without a new version."""
        with self.lock:
            for tensor in map(inner, tensors):
                if is_measurable(tensor) and has_memory(tensor):
                    self.generations.invalidate(tensor.untyped_storage())

    def invalidate_aliases(self, *tensors: torch.Tensor) -> None:
        """Forget what was known of the tensors' memory, which may have other tensors with versions of their own."""
        with self.lock:
            for tensor in map(inner, tensors):
                with suppress(RuntimeError, NotImplementedError):  # what has no memory was not written
                    self.generations.drop_known(tensor.untyped_storage()._cdata)

    def finish(self) -> Callable[[], None]:
        """Forget the step's tensors; return what waits for the devices and fills in every measurement."""
        with self.lock:
            self.flush()
            self._lists.forget()
            portable, self._portable_open = self._portable_open, []
            expanded, self._repeated = self._repeated, []
            self._seen.clear()
            self._measured.clear()
            self.generations.clear()
            fills = self._arenas.finish()
            statistics = self._portable.take()
            for measurement, number in portable:
                measurement.statistics = statistics[number]

        def fill() -> None:
            for each in fills:
                each()
            for measurement, once, times in expanded:
                measurement.statistics = repeated(once.statistics, times) if once.statistics is not None else None

        return fill

    def _where_it_lies(self, tensor: torch.Tensor, memory: torch.UntypedStorage, look: Any) -> ObservedTensor | None:
        """Let nearly every tensor wait to be measured where it lies; None where it is of another kind."""
        arena = self._arenas.of(look[5], tensor.device)
        count = tensor.numel()
        if arena is None or not count or look[7] or type(tensor) not in PLAIN or not tensor.is_contiguous():
            return None
        if memory.nbytes() < (look[2] + count) * arena.size or not memory.resizable() or _is_wrapped(tensor):
            return None  # What NumPy or a file shares cannot be resized, and can change without a new version.
        address = tensor.data_ptr()
        if not address or memory._cdata in self.generations.distrusted:
            return None
        number = self.generations.number(memory, look[1])
        # Contiguous views of one memory differ by their counts alone.
        place = (number, look[2], look[5], (look[3], look[4]) if self._kept.by_shape else count)
        measurement = self._measured.get(place)
        if measurement is None:
            measurement = self._measured[place] = Measurement()
            self._waiting.append(tensor)
            arena.add(address, count, arena.dtype, measurement)
        seen = ObservedTensor(look[5], look[3], look[6], measurement, None, arena, count)
        self._seen[(number, *look[1:])] = seen
        return seen

    def _nested(self, tensor: torch.Tensor, *, keep: bool = True) -> ObservedTensor:
        form = "jagged" if tensor.layout is torch.jagged else "nested"
        if has_holes(tensor):
            return ObservedTensor(tensor.dtype, (int(tensor.size(0)),), tensor.requires_grad, None, form)
        seen = self._observe(inner(tensor), keep=keep)
        return ObservedTensor(seen.dtype, seen.shape, tensor.requires_grad, seen.measurement, form)

    def _unversioned(self, tensor: torch.Tensor) -> ObservedTensor:
        if tensor.is_nested:
            return self._nested(tensor)
        if not is_measurable(tensor) or not has_memory(tensor):
            return _unmeasured(tensor)
        with self.lock:
            return _seen(tensor, self._measure(tensor))

    def _first_sight(
        self, tensor: torch.Tensor, memory: torch.UntypedStorage, look: Any, *, keep: bool
    ) -> ObservedTensor:
        if not is_measurable(tensor) or not has_memory(tensor):
            return _unmeasured(tensor)
        if not keep or memory._cdata in self.generations.distrusted or not memory.resizable():
            return _seen(tensor, self._measure(tensor))
        number = self.generations.number(memory, look[1])
        place = (number, look[2], tensor.dtype, look[-2:], self._geometry(tensor))
        measurement = self._measured.get(place)
        if measurement is None:
            measurement = self._measured[place] = self._measure(tensor)
        seen = self._seen[(number, *look[1:])] = _seen(tensor, measurement)
        return seen

    def _geometry(self, tensor: torch.Tensor) -> Any:
        """Return what makes two views of one storage the same numbers: contiguous ones differ by count alone."""
        if tensor.is_contiguous() and not self._kept.by_shape:
            return tensor.numel()
        return tuple(tensor.shape), tensor.stride()

    def _measure(self, tensor: torch.Tensor) -> Measurement:
        with _outside_of_transforms():
            return self._measure_plain(tensor)

    def _measure_plain(self, tensor: torch.Tensor) -> Measurement:
        measurement = Measurement()
        if self._kept.values:
            measurement.values = self.copy(tensor)
        if self._kept.xor:
            measurement.checksum = xor_checksum(from_torch(tensor))
            return measurement
        if 0 in tensor.stride() and not self._kept.checksum:
            tensor, times = unrepeated(tensor)
            once = Measurement()
            self._repeated.append((measurement, once, times))
            if not self._wait_for_arena(tensor, once):
                self._measure_now(tensor, once)
        elif not self._wait_for_arena(tensor, measurement):
            self._measure_now(tensor, measurement)
        return measurement

    def _wait_for_arena(self, tensor: torch.Tensor, measurement: Measurement) -> bool:
        """Add a tensor to what waits; False where it is of a kind that no arena measures."""
        if not tensor.numel() or tensor.is_neg():
            return False
        arena = self._arenas.of(tensor.dtype, tensor.device)
        if arena is None and tensor.dtype in _LOW and not self._kept.checksum:
            arena = self._arenas.of(torch.float32, tensor.device)
            tensor = tensor.detach().float() if arena is not None else tensor
        if arena is None:
            return False
        if not (tensor.is_contiguous() if self._kept.checksum else is_dense(tensor)):
            tensor = tensor.detach().contiguous()
        self._waiting.append(tensor)
        arena.add(tensor.data_ptr(), tensor.numel(), arena.dtype, measurement)
        return True

    def _measure_now(self, tensor: torch.Tensor, measurement: Measurement) -> None:
        if tensor.device.type != "cpu" and tensor.numel() and not self._kept.checksum and is_portable(tensor):
            self._portable_open.append((measurement, self._portable.add(tensor)))
            return
        measurement.statistics = self._kernel.statistics(widened(tensor))
        if self._kept.checksum:
            measurement.checksum = self._kernel.checksum(from_torch(tensor))
