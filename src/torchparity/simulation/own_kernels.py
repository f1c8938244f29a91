"""Kernels for what the CPU has no operator of: copies between devices, and ATen's hooks for devices like this one.

Each takes a call on the host and computes, with the CPU's operators, what the CPU computes for the same API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchparity.simulation.call import HostCall, Kernel

_aten = torch.ops.aten


def _copy(call: HostCall) -> Any:
    call.argument("dst").copy_(call.argument("self"))
    return call.argument("dst")


def _copy_and_resize(call: HostCall) -> Any:
    return call.argument("dst").resize_(call.argument("self").shape).copy_(call.argument("self"))


def _resize(call: HostCall) -> Any:
    """Resize in memory of its own where the tensor grows: other tensors may show the old memory."""
    tensor, size = call.argument("self"), call.argument("size")
    needed = tensor.element_size() * (tensor.storage_offset() + torch.Size(size).numel())
    if needed > tensor.untyped_storage().nbytes():
        grown = torch.empty(needed, dtype=torch.uint8)
        old = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        grown[: len(old)] = old
        tensor.set_(grown.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
    return tensor.resize_(size, memory_format=call.argument("memory_format") or torch.contiguous_format)


def _convolution(call: HostCall) -> Any:
    return _aten.convolution.default(*call.arguments, **call.keywords)


def _convolution_backward(call: HostCall) -> Any:
    grad, given, weight = (call.argument(name) for name in ("grad_output", "input", "weight"))
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups", "output_mask")
    options = [call.argument(name) for name in names]
    channels = grad.shape[1 if grad.dim() > weight.dim() - 1 else 0]
    sizes = [channels] if call.argument("output_mask")[2] else None
    return _aten.convolution_backward.default(grad, given, weight, sizes, *options)


def _dropout(call: HostCall) -> Any:
    """Compute as `torch.dropout` does on the CPU, which has another way than `native_dropout`."""
    values, rate, train = (call.argument(name) for name in ("input", "p", "train"))
    if train is False or rate == 0 or not values.numel():
        return values.clone(), torch.ones_like(values, dtype=torch.bool)
    noise = torch.empty_like(values).bernoulli_(1 - rate, generator=call.keywords["generator"])
    mask = noise != 0
    return values * noise.div_(1 - rate), mask


def _dropout_backward(call: HostCall) -> Any:
    grad, mask, scale = (call.argument(name) for name in ("grad_output", "mask", "scale"))
    kept = mask.to(grad.dtype)
    return grad * (kept.div_(1 / scale) if scale else kept.mul_(scale))


def _zeros(call: HostCall) -> Any:
    """Return zeros with memory, where the CPU has a tensor without."""
    return torch.zeros(call.argument("size"), dtype=call.argument("dtype"))


def _nothing(call: HostCall) -> Any:
    return None


OWN_KERNELS: Mapping[str, Kernel] = {
    "_copy_from": _copy,
    "_copy_from_and_resize": _copy_and_resize,
    "resize_": _resize,
    "convolution_overrideable": _convolution,
    "convolution_backward_overrideable": _convolution_backward,
    "native_dropout": _dropout,
    "native_dropout_backward": _dropout_backward,
    "_efficientzerotensor": _zeros,
    "record_stream": _nothing,
}
DRAWS_WITHOUT_ASKING = frozenset({"native_dropout"})  # random, and without an argument for the generator
