"""The measurement cache: every tensor of a step is measured once, however many calls show it.

A tensor is found again by its storage, offset, shape, stride and dtype (a `ViewKey`). A hit returns the
observed tensor of the first time. A miss queues the tensor for the arena of its device, or measures it
at once where there is none; a view that shows the same numbers as another shares its measurement.
`flush` measures the queue, `finish_step` ends a step and returns its measurements, still to be filled in.

An entry holds as long as its storage has not been written. In-place writes bump `Tensor._version`, which
is part of the key; writes that do not bump it have to be reported to `writes` (storage_writes.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchparity.calls import PLAIN
from torchparity.recording.measuring.arenas import ArenaSlot
from torchparity.recording.measuring.cache_tables import CacheTables
from torchparity.recording.measuring.geometry import (
    has_holes,
    has_memory,
    inner,
    is_measurable,
    is_wrapped,
    may_change_unseen,
    reach_of,
    version_of,
)
from torchparity.recording.measuring.keys import Extent, values_key, view_key
from torchparity.recording.measuring.lineage import Lineage, Source
from torchparity.recording.measuring.measurer import MeasurementOptions, Measurer, Store, is_copied
from torchparity.recording.measuring.observed import Measurement, ObservedList, ObservedTensor
from torchparity.recording.measuring.pending import PendingMeasurements
from torchparity.recording.measuring.storage_writes import StorageWrites
from torchparity.recording.measuring.tensor_lists import FEWEST, ListCache


class MeasurementCache:
    """Observes tensors for one recording; used from the training thread and from autograd's."""

    def __init__(self, options: MeasurementOptions, *, exact: bool, store: Store | None = None) -> None:
        self._measurer = Measurer(options, exact=exact, store=store)
        self._tables = CacheTables()
        self._lists = ListCache(self._tables, self._measurer, self.observe)
        self.writes = StorageWrites(self._tables, self.flush)
        self._by_shape, self._allows_zero_copy = options.by_shape, options.allows_zero_copy
        # The same objects once more: each lookup through another object costs on the hot path.
        self._lock, self._generations = self._tables.lock, self._tables.generations
        self._observed, self._measurements = self._tables.observed, self._tables.measurements
        self._generation_of, self._sources = self._generations.current, self._generations.lineage.sources
        self._arenas = self._measurer.arenas
        self._zero_copy_slots, self._queued = self._arenas.zero_copy_slots, self._measurer.queued

    @property
    def device_types(self) -> set[str] | None:
        """The types of the devices that measured tensors are on; None where no arena has measured any."""
        return self._arenas.device_types or None

    def observe(
        self,
        tensor: torch.Tensor,
        *,
        remember: bool = True,
        keep_values: bool = False,
        maker: Source | None = None,
    ) -> ObservedTensor:
        """Return the observed tensor: on a hit that of the first time, on a miss a new one that is being measured.

        Without `remember` the tensor is measured anew and not cached; with `keep_values` its values are copied too.
        `maker` is the source of what is new among the outputs of a call.
        """
        if keep_values:
            return self._observe_with_values(tensor, remember=remember, maker=maker)
        if type(tensor) not in PLAIN:
            tensor = getattr(tensor, "_local_tensor", tensor)  # of a sharded tensor the part of this rank
            if tensor.is_nested:
                return self._observe_nested(tensor, remember=remember, maker=maker)
        try:
            storage = tensor.untyped_storage()
            version = tensor._version
            offset: int = tensor.storage_offset()  # type: ignore[assignment]
            shape = tuple(tensor.shape)  # a Size would be walked by the garbage collector
            stride = tensor.stride()
            dtype = tensor.dtype
            requires_grad = tensor.requires_grad
            negative = tensor.is_neg()
            conjugate = dtype.is_complex and tensor.is_conj()
            generation = self._generation_of.get(storage._cdata)
            observed = self._observed.get(  # by `view_key`, without the call
                (generation, version, offset, shape, stride, dtype, requires_grad, negative, conjugate)
            )
        except (RuntimeError, NotImplementedError, TypeError):
            # No storage, or an inference tensor, which has no version, or a symbolic size, which has no hash.
            return self._observe_unversioned(tensor, remember=remember, maker=maker)
        if observed is not None and remember:
            return observed
        with self._lock:
            if remember and self._allows_zero_copy and not negative:
                observed = self._queue_in_place(
                    tensor, storage, version, offset, shape, stride, dtype, requires_grad, maker
                )
                if observed is not None:
                    return observed
            return self._observe_new(tensor, storage, remember=remember, maker=maker)

    def observe_all(
        self,
        tensors: Sequence[torch.Tensor],
        *,
        remember: bool = True,
        keep_values: bool = False,
        maker: Source | None = None,
    ) -> tuple[ObservedTensor, ...]:
        """Observe the tensors of a call together."""
        if remember and not keep_values and len(tensors) >= FEWEST:
            observed_list = self._lists.observe(tensors, maker)
            if observed_list is not None:
                return observed_list.tensors
        observe = self.observe
        return tuple([observe(tensor, remember=remember, keep_values=keep_values, maker=maker) for tensor in tensors])

    def observe_list(self, tensors: Sequence[torch.Tensor]) -> ObservedList | None:
        """Observe a long list through the cache of lists; None where its entries must be observed one by one."""
        return self._lists.observe(tensors)

    def flush(self) -> None:
        """Measure the queue: from here on its tensors may change or be freed."""
        if self._queued:
            with self._lock:
                failure = self._arenas.flush()
                self._queued.clear()
            if failure is not None:
                raise failure

    @property
    def lineage(self) -> Lineage:
        """The lineage of the storages."""
        return self._generations.lineage

    def finish_step(self, step: int = 0) -> PendingMeasurements:
        """Empty the cache; return the step's measurements, which `wait` fills in when the devices are done.

        `step` is its number in the run, for the lineage of what outlives it.
        """
        with self._lock:
            self.flush()
            self._lists.clear()
            self._tables.end_step(step)
            return self._measurer.take_step()

    def forget_all(self) -> None:
        """Let go of everything: the recording is over."""
        with self._lock:
            self._generations.forget_all()

    def _queue_in_place(
        self,
        tensor: torch.Tensor,
        storage: torch.UntypedStorage,
        version: int,
        offset: int,
        shape: tuple[int, ...],
        stride: tuple[int, ...],
        dtype: torch.dtype,
        requires_grad: bool,
        maker: Source | None,
    ) -> ObservedTensor | None:
        """Queue a tensor for a zero-copy arena, as nearly all can be; None where it needs a closer look."""
        device = tensor.device
        try:
            arena = self._zero_copy_slots[dtype, device]
        except KeyError:
            arena = self._arenas.zero_copy_slot(dtype, device)
        count = tensor.numel()
        is_contiguous = tensor.is_contiguous()
        if arena is None or not count or type(tensor) not in PLAIN or not (is_contiguous or is_copied(stride)):
            return None
        reach = count if is_contiguous else reach_of(shape, stride)
        if storage.nbytes() < (offset + reach) * arena.itemsize or is_wrapped(tensor):
            return None
        if not storage.resizable() and may_change_unseen(storage):
            return None
        address = tensor.data_ptr()
        if not address or storage._cdata in self._generations.uncacheable:
            return None
        generation = self._generations.at_version(tensor, storage, version, maker)
        extent: Extent = count if is_contiguous and not self._by_shape else (shape, stride)
        of_values = (generation, offset, dtype, False, False, extent)  # by `values_key`, without the call
        measurement = self._measurements.get(of_values)
        if measurement is None:
            measurement = self._measurements[of_values] = Measurement()
            if is_contiguous:
                self._queued.append(tensor)
                arena.add(tensor, address, count, arena.dtype, measurement)
            else:
                self._queue_strided(arena, tensor, address, shape, stride, measurement)
        source, in_place = self._sources[storage._cdata], arena if is_contiguous else None
        observed = ObservedTensor(dtype, shape, requires_grad, measurement, None, in_place, count, source)
        self._observed[generation, version, offset, shape, stride, dtype, requires_grad, False, False] = observed
        return observed

    def _queue_strided(
        self,
        arena: ArenaSlot,
        tensor: torch.Tensor,
        address: int,
        shape: tuple[int, ...],
        stride: tuple[int, ...],
        measurement: Measurement,
    ) -> None:
        """Queue a strided tensor, or a copy where the arena cannot read it: sketches go by the order of elements."""
        layout = arena.layout_of(arena.dtype, shape, stride, address)
        if layout is None:
            tensor = tensor.detach().contiguous()
            address = tensor.data_ptr()
        self._queued.append(tensor)
        arena.add(tensor, address, tensor.numel(), arena.dtype, measurement, layout)

    def _observe_new(
        self, tensor: torch.Tensor, storage: torch.UntypedStorage, *, remember: bool, maker: Source | None
    ) -> ObservedTensor:
        """Observe a tensor of any kind that is not in the cache."""
        if not is_measurable(tensor) or not has_memory(tensor):
            return _unmeasured(tensor, maker or self.lineage.unknown)
        is_watched = storage._cdata not in self._generations.uncacheable and not may_change_unseen(storage)
        if not remember or not is_watched:
            source = self._generations.trace(tensor, storage, tensor._version, maker)
            if not is_watched and maker is None:
                source = self.lineage.exposed(source)
            return _measured(tensor, self._measurer.measure(tensor), source)
        version, offset, dtype = tensor._version, int(tensor.storage_offset()), tensor.dtype
        shape, stride = tuple(tensor.shape), tensor.stride()
        negative, conjugate = tensor.is_neg(), tensor.is_conj()
        generation = self._generations.at_version(tensor, storage, version, maker)
        extent: Extent = (shape, stride)
        if tensor.is_contiguous() and not self._by_shape:
            extent = tensor.numel()  # contiguous views differ by their number of elements alone
        of_values = values_key(generation, offset, dtype, extent, negative, conjugate)
        measurement = self._measurements.get(of_values)
        if measurement is None:
            measurement = self._measurements[of_values] = self._measurer.measure(tensor)
        of_view = view_key(generation, version, offset, shape, stride, dtype, tensor.requires_grad, negative, conjugate)
        observed = self._observed[of_view] = _measured(tensor, measurement, self._sources[storage._cdata])
        return observed

    def _observe_with_values(self, tensor: torch.Tensor, *, remember: bool, maker: Source | None) -> ObservedTensor:
        observed = self.observe(tensor, remember=remember, maker=maker)
        if observed.measurement is not None and observed.measurement.values is None:
            observed.measurement.values = self._measurer.copy(inner(tensor))
        return observed

    def _observe_nested(self, tensor: torch.Tensor, *, remember: bool, maker: Source | None) -> ObservedTensor:
        form = "jagged" if tensor.layout is torch.jagged else "nested"
        if has_holes(tensor):
            source = maker or self.lineage.unknown
            shape = (int(tensor.size(0)),)
            return ObservedTensor(tensor.dtype, shape, tensor.requires_grad, None, form, source=source)
        values = self.observe(inner(tensor), remember=remember, maker=maker)
        return ObservedTensor(
            values.dtype, values.shape, tensor.requires_grad, values.measurement, form, source=values.source
        )

    def _observe_unversioned(self, tensor: torch.Tensor, *, remember: bool, maker: Source | None) -> ObservedTensor:
        if tensor.is_nested:
            return self._observe_nested(tensor, remember=remember, maker=maker)
        if not is_measurable(tensor) or not has_memory(tensor):
            return _unmeasured(tensor, maker or self.lineage.unknown)
        with self._lock:
            source = self._generations.trace(tensor, tensor.untyped_storage(), version_of(tensor), maker)
            return _measured(tensor, self._measurer.measure(tensor), source)


def _measured(tensor: torch.Tensor, measurement: Measurement, source: Source) -> ObservedTensor:
    return ObservedTensor(tensor.dtype, tuple(tensor.shape), tensor.requires_grad, measurement, source=source)


def _unmeasured(tensor: torch.Tensor, source: Source) -> ObservedTensor:
    layout = None if tensor.layout is torch.strided else str(tensor.layout).removeprefix("torch.")
    form = "meta" if tensor.is_meta else layout
    return ObservedTensor(tensor.dtype, tuple(tensor.shape), tensor.requires_grad, None, form, source=source)
