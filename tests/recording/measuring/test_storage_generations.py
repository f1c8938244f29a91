"""One address, several tensors: memory that is freed and used again, and tensors that are swapped."""

from __future__ import annotations

import torch

from tests.support.interrupts import interrupts, ring
from torchparity import open_run
from torchparity.recording import capture
from torchparity.recording.measuring import storage_generations
from torchparity.recording.measuring.measurement_cache import MeasurementCache
from torchparity.recording.measuring.measurer import MeasurementOptions
from torchparity.records import TensorLeaf


def test_tensors_can_be_swapped(tmp_path):
    left, right = torch.zeros(2), torch.ones(2)
    with capture(tmp_path):
        torch.sin(left)
        torch.utils.swap_tensors(left, right)

    assert left.tolist() == [1, 1]


def test_memory_that_is_used_again_is_another_tensor(tmp_path):
    with capture(tmp_path, task="tensor"):
        for value in range(200):
            torch.full((256,), float(value)).mul(1.0)

    part = open_run(tmp_path).part()

    for value in range(200):
        (output,) = (leaf for leaf in part.records[f"Tensor.mul.{value}.forward"].output)
        assert isinstance(output, TensorLeaf)
        assert part.tensor(output).array[0] == value


def test_a_tensor_is_observed_as_before_after_an_alarm_in_the_middle():
    places = 0
    for run_interrupted in interrupts(storage_generations.__file__, ring):
        cache, tensor = MeasurementCache(MeasurementOptions(), exact=False), torch.ones(3)
        run_interrupted(lambda: cache.observe(tensor))  # noqa: B023

        assert cache.observe(tensor).measurement is not None
        places += 1

    assert places > 3
