"""Verdicts on deviations that a device still computes: read once, judged in the order of the calls."""

from __future__ import annotations

import math
import types
import weakref
from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.perturbing import perturbing, rows_in, wrong_kernel
from torchparity.config import FreeBenchmarkTask
from torchparity.perturb.deviation import deviation_on_device, largest_deviation
from torchparity.perturb.entry import perturbing_for
from torchparity.perturb.thresholds import FixedThresholds
from torchparity.perturb.verdicts import Measured, Verdicts
from torchparity.recording.writing.perturb_output import PerturbOutput

F32 = torch.float32


class Reads(TorchDispatchMode):
    """Counts the operators that make the host wait for a device."""

    WAITING = ("_local_scalar_dense", "equal", "nonzero", "is_nonzero", "item")

    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))

    @property
    def waits(self):
        return sum(self.seen[name] for name in self.WAITING)


def measured(name, index=None):
    return Measured(name, f"{name}.0.forward", "forward", 0, F32, (3,), F32, 0.0, index)


def verdicts_in(folder):
    verdicts = Verdicts("no_change", FixedThresholds(), lambda: 0)
    verdicts.open(folder, 0)
    return verdicts


def names(folder):
    return [row["api_name"].partition(".")[0] for row in rows_in(folder)]


def test_rows_come_in_the_order_of_the_calls_wherever_they_were_computed(tmp_path):
    verdicts = verdicts_in(tmp_path)

    verdicts.add(measured("host"), 1.0)
    verdicts.add(measured("device"), torch.tensor(0.5))
    verdicts.add(measured("sound"), torch.tensor(0.0))
    verdicts.add(measured("shape"), math.inf)
    verdicts.add(measured("wide"), torch.tensor(0.25, dtype=torch.float64))
    assert names(tmp_path) == ["host"]  # nothing has to be waited for
    verdicts.end_step()
    verdicts.add(measured("next"), 0.125)
    assert names(tmp_path) == ["host"]  # what the step measured is on its way
    verdicts.end_step()
    assert names(tmp_path) == ["host", "device", "shape", "wide"]
    verdicts.settle()
    verdicts.add(measured("last"), 0.0625)

    assert names(tmp_path) == ["host", "device", "shape", "wide", "next", "last"]
    assert [row["max_rel"] for row in rows_in(tmp_path)] == ["1.0", "0.5", "inf", "0.25", "0.125", "0.0625"]


def test_deviations_of_a_device_are_read_together(tmp_path):
    verdicts = verdicts_in(tmp_path)

    with Reads() as reads:
        for number in range(100):
            verdicts.add(measured(f"api{number}"), torch.tensor(1.0))
        verdicts.settle()
        assert reads.waits == 0

    assert reads.seen["stack"] == 1
    assert len(rows_in(tmp_path)) == 100


def test_no_more_than_some_are_kept_on_a_device(tmp_path):
    verdicts, kept = verdicts_in(tmp_path), []

    for number in range(1000):
        deviation = torch.tensor(1.0)
        kept.append(weakref.ref(deviation))
        verdicts.add(measured(f"api{number}"), deviation)
    del deviation

    assert sum(each() is not None for each in kept) < 1000
    verdicts.settle()
    assert len(rows_in(tmp_path)) == 1000


def test_the_rows_of_the_last_step_are_written_when_the_training_ends(tmp_path, capsys):
    perturbing = perturbing_for(FreeBenchmarkTask(pert_mode="no_change"), lambda: 0)
    output = PerturbOutput(perturbing, tmp_path, rank=0)
    perturbing.verdicts.add(measured("device"), torch.tensor(0.5))
    perturbing.end_step(0)
    assert names(tmp_path) == []

    output.close([])

    assert names(tmp_path) == ["device"]
    assert "1 result beyond the thresholds" in capsys.readouterr().out


def test_a_device_s_way_waits_for_nothing_and_says_what_the_host_s_does():
    torch.manual_seed(0)
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e-5, 1e38, -1e38])
    pairs = [(left, right) for left in special for right in special]
    pairs += [(torch.randn(300), torch.randn(300)), (torch.randn(300) * 1e-4, torch.randn(300) * 1e-4)]
    for dtype in (torch.float16, torch.bfloat16, F32, torch.float64):
        for left, right in pairs:
            original, perturbed = left.reshape(-1).to(dtype), right.reshape(-1).to(dtype)
            with Reads() as reads:
                on_device = deviation_on_device(original, perturbed)
            assert reads.waits == 0
            torch.testing.assert_close(
                on_device.double().item(), float(largest_deviation(original, perturbed)), rtol=1e-5, atol=0
            )


def test_integers_are_compared_on_a_device_without_waiting():
    with Reads() as reads:
        equal = deviation_on_device(torch.tensor([1, 2]), torch.tensor([1, 2]))
        other = deviation_on_device(torch.tensor([True]), torch.tensor([False]))
    assert reads.waits == 0

    assert (equal.item(), other.item()) == (0.0, math.inf)


def test_a_call_that_is_left_out_uses_up_no_other_s_place(tmp_path):
    with perturbing(tmp_path, pert_mode="bit_noise", list=["Torch.sub"], max_calls_per_api=1):
        torch.sub(torch.tensor([1]), 1)  # integers alone
        torch.sub(torch.tensor([1e7 + 1]), 1e7)
        torch.sub(torch.tensor([1e7 + 1]), 1e7)

    assert [row["api_name"] for row in rows_in(tmp_path)] == ["Torch.sub.1.forward"]


def test_singular_vectors_of_the_other_sign_are_no_finding(tmp_path):
    signs = iter([1.0, -1.0])

    def decomposed(values, full_matrices=True, compute_uv=True, driver=None):
        sign = next(signs)
        left, sizes, right = (torch.from_numpy(part) for part in np.linalg.svd(values.numpy()))
        return left * sign, sizes, right * sign

    with wrong_kernel("_linalg_svd", decomposed), perturbing(tmp_path, pert_mode="no_change", list=["svd"]):
        torch.linalg.svd(torch.rand(4, 4))

    assert rows_in(tmp_path) == []


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_places_of_equal_elements_are_no_finding(dimensions, tmp_path):
    pool = getattr(torch.nn.functional, f"adaptive_max_pool{dimensions}d")
    values = torch.rand(4, 4, *[8] * dimensions, generator=torch.Generator().manual_seed(0)).bfloat16()
    with perturbing(tmp_path, pert_mode="bit_noise", list=["max_pool"]):
        pool(values, 1, return_indices=True)

    assert rows_in(tmp_path) == []


def test_eigenvalues_in_another_order_are_no_finding(tmp_path, capsys):
    matrix = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    with perturbing(tmp_path, pert_mode="bit_noise", list=["eig"]):
        torch.linalg.eig(matrix)
        torch.linalg.eigvals(matrix)

    assert rows_in(tmp_path) == []
    assert "2 calls left out: its results come in no defined order" in capsys.readouterr().out


def test_the_largest_of_integers_is_compared_and_its_place_is_not(tmp_path):
    def wrong(values, dim, keepdim=False):
        wrong.calls += 1
        return torch.full_like(values[0], wrong.calls), torch.full_like(values[0], wrong.calls)

    wrong.calls = 0
    with wrong_kernel("max.dim", wrong), perturbing(tmp_path, pert_mode="no_change", list=["max"]):
        torch.max(torch.ones(2, 3, dtype=torch.int64), 0)

    assert [row["output_index"] for row in rows_in(tmp_path)] == ["0"]


def test_a_call_that_fails_when_it_is_perturbed_is_not_counted_as_perturbed(tmp_path, capsys):
    def only_halves(values):
        if values.dtype is not torch.float16:
            raise TypeError("halves only")
        return values * 2

    mine = types.SimpleNamespace(__name__="mine", function=only_halves)
    with perturbing(tmp_path, pert_mode="improve_precision", list=["mine"]) as debugger:
        debugger.register_custom_api(mine, "function")
        mine.function(torch.ones(2, dtype=torch.float16))

    assert "nothing was checked with improve_precision; 1 call left out" in capsys.readouterr().out
