"""A tensor is measured once; what is written in between is measured again."""

from __future__ import annotations

import pytest
import torch

from torchparity.recording.measuring.measurement_cache import MeasurementCache
from torchparity.recording.measuring.measurer import MeasurementOptions


def new_cache(**options):
    return MeasurementCache(MeasurementOptions(**options), exact=False)


def maxima(cache, observed):
    cache.finish_step().wait()
    return [one.measurement.statistics.max for one in observed]


def test_the_same_tensor_is_a_hit():
    cache, tensor = new_cache(), torch.tensor([1.0, 2.0])

    first, second = cache.observe(tensor), cache.observe(tensor)

    assert first is second
    assert maxima(cache, [first]) == [2]


def test_an_in_place_write_is_a_miss():
    cache, tensor = new_cache(), torch.tensor([1.0, 2.0])
    before = cache.observe(tensor)
    cache.flush()
    tensor.add_(1)

    assert maxima(cache, [before, cache.observe(tensor)]) == [2, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_reshaped_view_shares_the_measurement_unless_shapes_are_stored(dtype):
    tensor = torch.arange(6, dtype=dtype)
    cache, by_shape = new_cache(), new_cache(by_shape=True)

    assert cache.observe(tensor).measurement is cache.observe(tensor.view(2, 3)).measurement
    assert by_shape.observe(tensor).measurement is not by_shape.observe(tensor.view(2, 3)).measurement
    assert cache.observe(tensor).measurement is not cache.observe(tensor[1:]).measurement


@pytest.mark.parametrize("invalidate", ["invalidate", "never_cache", "invalidate_all"])
def test_a_write_without_a_new_version_is_measured_once_it_is_reported(invalidate):
    cache, tensor = new_cache(), torch.tensor([1.0, 2.0])
    before = cache.observe(tensor)
    cache.flush()
    version = tensor._version
    tensor.data.add_(1)
    assert tensor._version == version and cache.observe(tensor) is before
    getattr(cache.writes, invalidate)(*([] if invalidate == "invalidate_all" else [tensor]))

    after = cache.observe(tensor)

    assert (cache.observe(tensor) is after) == (invalidate != "never_cache")
    assert maxima(cache, [before, after]) == [2, 3]


def test_a_list_is_measured_again_once_a_write_without_a_new_version_is_reported():
    cache, tensors = new_cache(), [torch.full((2,), float(number)) for number in range(9)]
    before = cache.observe_all(tensors)
    cache.flush()
    tensors[4].data.add_(10)
    cache.writes.invalidate(tensors[4])

    after = cache.observe_all(tensors)
    again = cache.observe_all(tensors)

    assert again is after
    assert maxima(cache, [before[4], after[4], after[5]]) == [4, 14, 5]


def test_a_tensor_without_storage_has_nothing_to_invalidate():
    cache = new_cache()
    cache.writes.invalidate(torch.ones(3).to_sparse(), torch.ones(2, device="meta"))
    cache.writes.never_cache(torch.ones(3).to_sparse(), torch.ones(2, device="meta"))

    assert cache.observe(torch.ones(3).to_sparse()).measurement is None


def test_without_remember_a_tensor_is_measured_anew_and_not_cached():
    cache, tensor = new_cache(), torch.ones(3)

    first = cache.observe(tensor, remember=False)
    second = cache.observe(tensor)
    third = cache.observe(tensor, remember=False)

    assert len({id(one.measurement) for one in (first, second, third)}) == 3
    assert cache.observe(tensor) is second


@pytest.mark.parametrize("count", [3, 12])
def test_tensors_observed_together_are_hits_alone(count):
    cache, tensors = new_cache(), [torch.full((2, 3), float(number)) for number in range(count)]

    together = cache.observe_all(tensors)

    assert all(cache.observe(tensor) is one for tensor, one in zip(tensors, together, strict=True))
    assert maxima(cache, together) == list(range(count))


@pytest.mark.parametrize("count", [3, 12])
def test_values_are_kept_once_and_as_they_were(count):
    cache, tensors = new_cache(), [torch.full((2,), float(number)) for number in range(count)]
    observed = cache.observe_all(tensors, keep_values=True)
    values = observed[1].measurement.values
    assert cache.observe(tensors[1], keep_values=True).measurement.values is values
    cache.flush()
    for tensor in tensors:
        tensor.fill_(100)

    assert [one.measurement.values.values.array[0] for one in observed] == list(range(count))
    assert maxima(cache, observed) == list(range(count))


def test_a_step_that_is_over_can_be_printed_and_waited_for():
    cache, tensors = new_cache(), [torch.ones(2), torch.ones(3), torch.ones(1).expand(4)]
    observed = [cache.observe(tensor) for tensor in tensors]

    pending = cache.finish_step()

    assert repr(pending) == "<PendingMeasurements 3 measurements on cpu, waiting>"
    assert observed[0].measurement.statistics is None
    pending.wait()
    assert repr(pending) == "<PendingMeasurements 3 measurements on cpu, filled in>"
    assert [one.measurement.statistics.norm for one in observed] == pytest.approx([2**0.5, 3**0.5, 2])
    pending.wait()
    assert repr(cache.finish_step()) == "<PendingMeasurements 0 measurements, waiting>"


def test_the_next_step_measures_anew():
    cache, tensor = new_cache(), torch.ones(2)
    first = cache.observe(tensor)
    pending = cache.finish_step()
    tensor.data.fill_(5)  # nothing of the old step is found, so nobody has to report it
    second = cache.observe(tensor)
    pending.wait()

    assert first.measurement.statistics.max == 1
    assert maxima(cache, [second]) == [5]
