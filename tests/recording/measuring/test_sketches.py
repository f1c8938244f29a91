"""Recorded sketches go by the order in which a tensor shows its elements, however it lies in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.support.sketches import sums_by_definition, sums_of
from torchparity import open_run
from torchparity.comparing.measuring.sketch import sketch_distance
from torchparity.recording import capture
from torchparity.recording.measuring import measurer


class Nothing(nn.Module):
    def forward(self, tensor):
        return None


def recorded(folder, tensor, **options):
    model = Nothing()
    with capture(folder, model=model, level="L0", **options):
        model(tensor)
    return open_run(folder).part().records["Module.Nothing.forward.0"].input_args[0].statistics


BASE = torch.randn(6, 7, 20, generator=torch.Generator().manual_seed(0))
VIEWS = {
    "contiguous": BASE,
    "transposed": BASE.transpose(0, 2),
    "channels last": BASE[None].to(memory_format=torch.channels_last),
    "sliced": BASE[:, 1:4, ::2],
    "part of a storage": BASE[2:],
    "expanded": BASE[:1].expand(5, 7, 20),
    "expanded number": torch.tensor(3.5).expand(9, 50),
    "expanded nan": torch.tensor(torch.nan).expand(9, 50),
    "bfloat16": BASE.bfloat16().transpose(1, 2),
    "float64": BASE.double().transpose(1, 2),
    "integers": (BASE * 100).long().transpose(1, 2),
    "bools": (BASE > 0).transpose(1, 2),
    "expanded bool": torch.tensor(True).expand(3, 100),
}


def assert_as_shown(sketch, shown):
    wanted = sums_by_definition(shown.double().numpy())
    allowed = 3e-7 * float(shown.double().nan_to_num().norm())
    assert np.abs(sums_of(sketch) - wanted).max() <= allowed


@pytest.mark.parametrize(
    "options", [{}, {"task": "tensor"}, {"summary_mode": "md5"}], ids=["statistics", "tensor", "md5"]
)
@pytest.mark.parametrize("view", list(VIEWS))
def test_signs_go_by_the_order_shown(view, options, tmp_path):
    shown = VIEWS[view]

    statistics = recorded(tmp_path, shown, **options)

    assert len(statistics.sketch) == (32 if shown.dtype in (torch.float32, torch.bfloat16) else 64)
    assert_as_shown(statistics.sketch, shown)


def test_an_expanded_tensor_that_is_too_large_has_no_sketch(tmp_path, monkeypatch):
    monkeypatch.setattr(measurer, "_MOST_EXPANDED", 100)

    assert recorded(tmp_path / "row", torch.arange(10.0).expand(11, 10)).sketch is None
    assert_as_shown(
        recorded(tmp_path / "few", torch.arange(10.0).expand(10, 10)).sketch, torch.arange(10.0).expand(10, 10)
    )
    assert_as_shown(recorded(tmp_path / "number", torch.tensor(2.0).expand(500)).sketch, torch.full((500,), 2.0))


def test_rows_that_change_places_leave_the_statistics_and_not_the_sketch(tmp_path):
    swapped = BASE[[1, 0, 2, 3, 4, 5]]
    kept, other = recorded(tmp_path / "a", BASE), recorded(tmp_path / "b", swapped)

    assert (kept.max, kept.min) == (other.max, other.min)
    assert kept.norm == pytest.approx(other.norm)
    distance = float((BASE - swapped).norm())
    assert 0.2 * distance < sketch_distance(kept.sketch, other.sketch) < 2.1 * distance


@pytest.mark.gpu
@pytest.mark.parametrize("view", list(VIEWS))
def test_a_cuda_device_gives_the_sketch_of_the_host(view, tmp_path, cuda):
    shown = VIEWS[view]
    on_device = torch.empty_strided(shown.shape, shown.stride(), dtype=shown.dtype, device=cuda)
    if 0 in shown.stride():
        on_device = shown.to(cuda)[tuple(slice(0, 1) if step == 0 else slice(None) for step in shown.stride())]
        on_device = on_device.expand(shown.shape)
    else:
        on_device.copy_(shown)

    statistics = recorded(tmp_path, on_device)

    assert_as_shown(statistics.sketch, shown)
