"""Measures each tensor once: statistics, checksum or a copy, by what the task keeps.

The same tensor at the same version is not looked at twice. A tensor is known by its
storage, offset, shape and stride. A weak reference pins the storage's identity, so memory
that was freed and used again is not mistaken for what was there before. No reference is
held to tensors themselves, not even a weak one: torch refuses to swap such tensors.

Tensors wait for `flush`, which measures all of them in one go; what came out is filled in
by `finish`, when the step ends.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import msgspec
import torch

from torchparity.capture._boundary import attempted
from torchparity.capture._memory import (
    copied,
    has_memory,
    is_dense,
    is_measurable,
    name_of,
    repeated,
    unrepeated,
    widened,
)
from torchparity.capture._rooms import Rooms
from torchparity.capture._xor import xor_checksum
from torchparity.kernels._arena import Arena, HostArena
from torchparity.kernels._portable import PortableArena, is_portable
from torchparity.kernels.cpu import CpuKernel
from torchparity.records import Statistics, TensorLeaf
from torchparity.storage import SharedTensor
from torchparity.storage._torch import from_torch

_log = logging.getLogger("torchparity")
_LOW = (torch.float16, torch.bfloat16)
_UNSWEPT = 32 << 20  # bytes of memory that may be gone and still pinned
_UNSWEPT_EACH = 8 << 10  # and more where there are many to look through
Store = Callable[[SharedTensor], None]


@dataclass(frozen=True)
class Kept:
    """What a task keeps of every tensor."""

    statistics: bool = True
    checksum: bool = False
    values: bool = False
    xor: bool = False  # another checksum, and no statistics
    by_shape: bool = False  # the format stores a tensor with its shape, so a reshaped view is another tensor


class Measurement(msgspec.Struct, gc=False):
    """What is known of one tensor at one version; filled in when the step ends."""

    statistics: Statistics | None = None
    checksum: str | None = None
    values: SharedTensor | None = None


class SeenTensor(msgspec.Struct, gc=False):
    """A tensor as calls saw it."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    requires_grad: bool
    measurement: Measurement | None
    layout: str | None = None
    made: TensorLeaf | None = None

    def leaf(self) -> TensorLeaf:
        """Return the leaf of every item that showed this tensor; call it when the step is over."""
        if self.made is None:
            known = self.measurement
            self.made = TensorLeaf(
                dtype=name_of(self.dtype),
                shape=self.shape,
                statistics=known.statistics if known else None,
                checksum=known.checksum if known else None,
                requires_grad=self.requires_grad,
                layout=self.layout,
            )
        return self.made


def _seen(tensor: torch.Tensor, measurement: Measurement) -> SeenTensor:
    return SeenTensor(tensor.dtype, tuple(tensor.shape), tensor.requires_grad, measurement)


def _unmeasured(tensor: torch.Tensor) -> SeenTensor:
    return SeenTensor(tensor.dtype, tuple(tensor.shape), tensor.requires_grad, None, _form(tensor))


def _form(tensor: torch.Tensor) -> str | None:
    if tensor.is_meta:
        return "meta"
    return None if tensor.layout is torch.strided else str(tensor.layout).removeprefix("torch.")


class Meter:
    """Looks at tensors for one recording; `finish` at the end of each step."""

    def __init__(self, kept: Kept, *, exact: bool, store: Store | None = None) -> None:
        self._kept, self._exact = kept, exact
        self._store, self._rooms = store, Rooms()
        self._kernel = CpuKernel(exact=exact)
        self._lock = threading.RLock()
        self._seen: dict[Any, SeenTensor] = {}
        self._measured: dict[Any, Measurement] = {}
        self._ages: dict[int, int] = {}
        self._versions: dict[int, int] = {}  # at which each memory was seen last
        self._pins: dict[int, Any] = {}  # weak references, in the form that is no object
        self._pinned_bytes = 0  # since the last sweep
        self._distrusted: set[int] = set()
        self._rewritten: set[int] = set()
        self._arenas: dict[torch.device, Arena | None] = {}
        self._portable = PortableArena()
        self._portable_open: list[tuple[Measurement, int]] = []
        self._repeated: list[tuple[Measurement, Measurement, int]] = []  # expanded tensors, each element once
        self._waiting: list[torch.Tensor] = []
        self._open: dict[int, list[Measurement]] = {}  # by arena, in the order in which it will tell
        self._broken: set[int] = set()  # arenas that failed: what they measured before is still taken

    def see(self, tensor: torch.Tensor, *, keep: bool = True) -> SeenTensor:
        """Return what is known of a tensor, adding it to what waits if need be; without `keep` it is not remembered."""
        tensor = getattr(tensor, "_local_tensor", tensor)  # a sharded tensor: what this rank has of it
        try:
            storage = tensor.untyped_storage()._cdata
            look = (
                storage,
                self._ages.get(storage, 0),
                tensor._version,
                tensor.storage_offset(),
                tuple(tensor.shape),  # a Size would be walked by the garbage collector
                tensor.stride(),
                tensor.dtype,
                tensor.requires_grad,
                tensor.is_neg(),
                tensor.is_conj(),
            )
            found = self._seen.get(look)
        except (RuntimeError, NotImplementedError, TypeError):
            # No storage, or a tensor of inference, which has no version, or a symbol for a size, which has no hash.
            return self._unversioned(tensor)
        if found is not None:
            return found
        with self._lock:
            return self._first_sight(tensor, storage, look, keep=keep)

    @property
    def takes_lists(self) -> bool:
        """Whether tensors may be measured many at a time: not where a copy or a sum of each is kept."""
        return not self._kept.values and not self._kept.xor and not self._broken

    def waits(self, tensor: torch.Tensor) -> bool:
        """Tell whether a tensor is of the kind that waits to be measured as it lies in memory."""
        arena = self._arena(tensor.device)
        known = arena is not None and name_of(tensor.dtype) in arena.dtypes and not tensor.is_neg()
        storage = tensor.untyped_storage()
        known = known and storage.resizable() and self.trusts((storage._cdata,))
        return known and tensor.numel() > 0 and tensor.is_contiguous()

    def trusts(self, storages: Iterable[int]) -> bool:
        """Tell whether a new version is the only way in which these memories change."""
        return self._distrusted.isdisjoint(storages) and self._rewritten.isdisjoint(storages)

    def ages_of(self, storages: Iterable[int]) -> tuple[int | None, ...]:
        """Return how often what was known of each of these memories was dropped."""
        return tuple(map(self._ages.get, storages))

    def moved_on(self, storages: Iterable[int], versions: Iterable[int]) -> None:
        """Note at which versions memories were seen; what was known of them at others is dropped.

        Tensors whose data somebody replaced share a memory and count versions each on its own:
        a version that comes again need not be what it was.
        """
        with self._lock:
            for storage, version in zip(storages, versions, strict=True):
                if self._versions.get(storage, version) != version:
                    self._drop(storage)
                self._versions[storage] = version

    def measure_all(self, tensors: Sequence[torch.Tensor], counts: Sequence[int], seen: Sequence[SeenTensor]) -> None:
        """Add tensors for which `waits` holds to what waits, at a version at which nobody saw them."""
        with self._lock:
            self._waiting += tensors
            for tensor, count, entry in zip(tensors, counts, seen, strict=True):
                arena = self._arenas[tensor.device]
                if arena is not None and entry.measurement is not None:
                    arena.add(tensor.data_ptr(), count, name_of(entry.dtype))
                    self._open[id(arena)].append(entry.measurement)

    def flush(self) -> None:
        """Measure what waits: from here on those tensors may change, and be gone."""
        if self._waiting:
            with self._lock, ExitStack() as each:  # which goes on with the next one when one raises
                each.callback(self._waiting.clear)
                for arena in self._arenas.values():
                    if arena is not None:
                        each.callback(self._flush, arena)

    def _flush(self, arena: Arena) -> None:
        try:
            arena.flush()
        finally:
            lost = arena.drop()
            if lost:
                del self._open[id(arena)][-lost:]
                self._broken.add(id(arena))

    def distrust(self, *tensors: torch.Tensor) -> None:
        """Somebody got at the memory itself: it may change from now on without a new version."""
        self.flush()
        for tensor in tensors:
            if is_measurable(tensor) and has_memory(tensor):
                storage = tensor.untyped_storage()._cdata
                self._pin(tensor, storage)
                self._distrusted.add(storage)
                self._drop(storage)

    def distrust_all(self) -> None:
        """Forget what was known of every memory: something wrote that nobody saw."""
        with self._lock:
            for storage in self._pins:
                self._drop(storage)

    def copy(self, tensor: torch.Tensor) -> SharedTensor:
        """Return the values as they are now, on their way to the disk where they can go ahead of their records."""
        values = copied(tensor, self._rooms)
        if self._store is not None:
            self._store(values)
        return values

    def renew(self, tensor: torch.Tensor) -> None:
        """Forget what was known of a tensor's memory: it was written without a new version."""
        if is_measurable(tensor) and has_memory(tensor):
            storage = tensor.untyped_storage()._cdata
            self._pin(tensor, storage)
            self._rewritten.add(storage)
            self._drop(storage)

    def finish(self) -> None:
        """Fill in every measurement of the step and forget its tensors."""
        with self._lock:
            self.flush()
            portable, self._portable_open = self._portable_open, []
            expanded, self._repeated = self._repeated, []
            self._seen.clear()
            self._measured.clear()
            self._ages.clear()
            self._versions.clear()
            self._distrusted.clear()
            self._rewritten.clear()
            for pin in self._pins.values():
                torch.UntypedStorage._free_weak_ref(pin)  # type: ignore[no-untyped-call]
            self._pins.clear()
            for arena in self._arenas.values():
                if arena is not None:
                    waiting, self._open[id(arena)] = self._open[id(arena)], []
                    for measurement, reading in zip(waiting, arena.take(), strict=True):
                        measurement.statistics, measurement.checksum = reading
            statistics = self._portable.take()
            for measurement, number in portable:
                measurement.statistics = statistics[number]
            for measurement, once, times in expanded:
                measurement.statistics = repeated(once.statistics, times) if once.statistics is not None else None

    def _unversioned(self, tensor: torch.Tensor) -> SeenTensor:
        if not is_measurable(tensor) or not has_memory(tensor):
            return _unmeasured(tensor)
        with self._lock:
            return _seen(tensor, self._measure(tensor))

    def _first_sight(self, tensor: torch.Tensor, storage: int, look: Any, *, keep: bool) -> SeenTensor:
        if not is_measurable(tensor) or not has_memory(tensor):
            return _unmeasured(tensor)
        # What NumPy or a file shares cannot be resized, and can change without a new version.
        if not keep or storage in self._distrusted or not tensor.untyped_storage().resizable():
            return _seen(tensor, self._measure(tensor))
        self._pin(tensor, storage)
        self.moved_on((storage,), (look[2],))
        look = (storage, self._ages.get(storage, 0), *look[2:])
        place = (*look[:4], tensor.dtype, *look[-2:], self._geometry(tensor))
        measurement = self._measured.get(place)
        if measurement is None:
            measurement = self._measured[place] = self._measure(tensor)
        seen = self._seen[look] = _seen(tensor, measurement)
        return seen

    def _drop(self, storage: int) -> None:
        """Make what was known of a memory too old to be found."""
        self._ages[storage] = self._ages.get(storage, 0) + 1

    def _geometry(self, tensor: torch.Tensor) -> Any:
        """Return what makes two views of one storage the same numbers: contiguous ones differ by count alone."""
        if tensor.is_contiguous() and not self._kept.by_shape:
            return tensor.numel()
        return tuple(tensor.shape), tensor.stride()

    def _pin(self, tensor: torch.Tensor, storage: int) -> None:
        if storage not in self._pins:
            memory = tensor.untyped_storage()
            self._pins[storage] = memory._weak_ref()
            if tensor.device.type == "cpu":
                self._pinned_bytes += memory.nbytes()
                if self._pinned_bytes > max(_UNSWEPT, _UNSWEPT_EACH * len(self._pins)):
                    self._sweep()

    def _sweep(self) -> None:
        """Let go of memories that are gone.

        What a weak reference leaves of each is small, but lies beside where it was: torch's
        next tensor would not fit there, and the heap would grow with every tensor of the step.
        """
        self._pinned_bytes = 0
        for storage, pin in list(self._pins.items()):
            if torch.UntypedStorage._expired(pin):
                torch.UntypedStorage._free_weak_ref(pin)  # type: ignore[no-untyped-call]
                del self._pins[storage]
                self._versions.pop(storage, None)
                self._drop(storage)  # the next one at this address is another
                self._distrusted.discard(storage)
                self._rewritten.discard(storage)

    def _measure(self, tensor: torch.Tensor) -> Measurement:
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
        arena = self._arena(tensor.device)
        if arena is None or not tensor.numel() or tensor.is_neg():
            return False
        if name_of(tensor.dtype) not in arena.dtypes:
            if tensor.dtype not in _LOW or self._kept.checksum:
                return False
            tensor = tensor.detach().float()
        if not (tensor.is_contiguous() if self._kept.checksum else is_dense(tensor)):
            tensor = tensor.detach().contiguous()
        self._waiting.append(tensor)
        arena.add(tensor.data_ptr(), tensor.numel(), name_of(tensor.dtype))
        self._open[id(arena)].append(measurement)
        return True

    def _measure_now(self, tensor: torch.Tensor, measurement: Measurement) -> None:
        if tensor.device.type != "cpu" and tensor.numel() and not self._kept.checksum and is_portable(tensor):
            self._portable_open.append((measurement, self._portable.add(tensor)))
            return
        measurement.statistics = self._kernel.statistics(widened(tensor))
        if self._kept.checksum:
            measurement.checksum = self._kernel.checksum(from_torch(tensor))

    def _arena(self, device: torch.device) -> Arena | None:
        arena = self._arenas.get(device)
        if arena is None and device not in self._arenas:
            with self._lock:
                arena = _arena_for(device, exact=self._exact, checksums=self._kept.checksum)
                self._open[id(arena)] = []
                self._arenas[device] = arena
        return None if id(arena) in self._broken else arena


def _arena_for(device: torch.device, *, exact: bool, checksums: bool) -> Arena | None:
    if device.type == "cpu":
        return HostArena(exact=exact, checksums=checksums)
    if device.type == "cuda":
        arena = attempted(lambda: _cuda_arena(device, checksums=checksums))
        if not isinstance(arena, Exception):
            return arena
        _log.warning(
            "torchparity measures tensors on %s with torch's own operators, which takes longer: %s: %s",
            device,
            type(arena).__name__,
            str(arena)[:200],
        )
    return None


def _cuda_arena(device: torch.device, *, checksums: bool) -> Arena:
    from torchparity.kernels._cuda import CudaArena  # Triton takes a second to import

    arena = CudaArena(device, checksums=checksums)
    arena.try_out()
    return arena
