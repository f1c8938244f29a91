"""The generators that are read for a call: those that it may draw from."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from torchparity.devices import all_devices
from torchparity.perturb.rerunning import RandomState, _drawn_from


def call_of(name):
    return SimpleNamespace(op=SimpleNamespace(name=name))


@pytest.mark.parametrize(
    ("name", "kinds", "has_host"),
    [
        ("Functional.gelu", ["cuda"], False),
        ("Functional.gelu", ["cuda", "cuda"], False),
        ("Functional.gelu", ["cpu"], True),
        ("Functional.gelu", ["cuda", "cpu"], True),
        ("Functional.gelu", [], True),
        ("Functional.gelu", ["npu"], True),  # a simulated one draws on the host
        ("Functional.dropout", ["cuda"], True),
        ("VF.lstm", ["cuda"], True),
        ("Custom.gelu", ["cuda"], True),
    ],
)
def test_the_host_is_left_out_only_where_a_call_cannot_draw_there(name, kinds, has_host):
    devices = _drawn_from(call_of(name), [SimpleNamespace(device=SimpleNamespace(type=kind)) for kind in kinds])

    assert any(device.is_host for device in devices) is has_host
    assert not has_host or tuple(devices) == all_devices()


def test_without_a_call_every_generator_is_put_back():
    state = RandomState()
    expected = torch.rand(3)
    assert state.has_changed()
    state.restore()

    assert torch.equal(torch.rand(3), expected)
