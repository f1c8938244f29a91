"""Recurrences on a device that uses TF32 for some of their products, as cuDNN does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.check.recorded_zoo import recorded
from tests.support.zoo import ZOO
from torchparity.check.checking import function_called, judge_performed, perform
from torchparity.check.emulation import tf32_products
from torchparity.check.execution.running import run
from torchparity.check.judging import Status

PRODUCTS = {"gru": 7, "lstm": 8}  # that differ in their shapes


def in_float32(results):
    return {
        name: value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for name, value in results.items()
    }


def performed_with(name, chosen, monkeypatch):
    """Return a recurrence whose products with the chosen shapes, by the order in which they come, are in TF32."""
    case = next(case for case in recorded(ZOO[name], torch.float32) if case.api == f"VF.{name}")
    performed = perform(case, function_called(case.api), torch.device("cpu"))
    shorten, shapes_met = tf32_products.Tf32Products.__torch_dispatch__, []

    def dispatch(mode, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in tf32_products._FACTORS:
            shapes = [value.shape for value in args]
            if shapes not in shapes_met:
                shapes_met.append(shapes)
            if shapes_met.index(shapes) not in chosen:
                return func(*args, **(kwargs or {}))
        return shorten(mode, func, types, args, kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(tf32_products.Tf32Products, "__torch_dispatch__", dispatch)
        device = run(performed.call, replace(performed.reference_way, tf32=0))
    assert len(shapes_met) == PRODUCTS[name]
    device = replace(device, outputs=in_float32(device.outputs), gradients=in_float32(device.gradients))
    return replace(performed, device=device, same_dtype=performed.device)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("chosen", [[0], [1, 2], [0, 1, 2], [3, 4, 5, 6, 7]])
def test_some_products_in_tf32_show_as_such_where_the_device_is_set_so(name, chosen, monkeypatch):
    performed = performed_with(name, chosen, monkeypatch)

    unset = judge_performed(performed.case, performed)
    result = judge_performed(performed.case, replace(performed, recurs_in_tf32=True))

    assert unset.status is Status.ERROR
    assert result.status is Status.WARNING
    assert all("TF32" in row.message for row in result.details if row.status is Status.WARNING)
