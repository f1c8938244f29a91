"""Results that are still on their way when a call returns, and are waited for before anybody reads them."""

from __future__ import annotations

from typing import Any

import torch

from torchparity.calls.arguments import tensors_in
from torchparity.calls.call import Call
from torchparity.devices import device_for


def wait_for_arrival(call: Call, output: Any) -> None:
    """Wait for what a functional collective receives, or a device copies into host memory."""
    if call.op.name.startswith("Ops._c10d_functional"):
        for tensor in tensors_in(output):
            torch.ops._c10d_functional.wait_tensor(tensor)
    elif call.kwargs.get("non_blocking") or any(value is True for value in call.args):
        _wait_for_host_copies((*call.args, *call.kwargs.values()), output)


def _wait_for_host_copies(args: tuple[Any, ...], output: Any) -> None:
    if any(device_for(tensor.device).is_host for tensor in tensors_in((output, *args[:1]))):
        for device in {tensor.device for tensor in tensors_in(args)}:
            device_for(device).wait(device)
