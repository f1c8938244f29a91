"""Autocast for the device: the casts that torch makes for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_LOWER = frozenset(
    {
        *("conv1d", "conv1d.padding", "conv2d", "conv2d.padding", "conv3d", "conv3d.padding", "conv_tbc"),
        *("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", "_convolution.deprecated"),
        *("bmm", "mm", "matmul", "baddbmm", "addmm", "addbmm", "linear", "linalg_vecdot", "prelu"),
        *("scaled_dot_product_attention", "_native_multi_head_attention", "mkldnn_rnn_layer"),
    }
)
_WIDEST = frozenset({"stack", "cat", "index_copy"})
_KEYS: Any = torch._C.DispatchKey


def autocast_operators() -> dict[str, Callable[[Any], torch.dtype | None]]:
    """Return the operators whose arguments autocast casts, and to what; None casts nothing."""
    of_cpu: list[str] = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU")
    names = {name.removeprefix("aten::") for name in of_cpu if name.startswith("aten::")}
    return {name: _lower if name in _LOWER else _widest if name in _WIDEST else _float32 for name in names}


def casting(operator: torch._ops.OpOverload, wanted: Callable[[Any], torch.dtype | None]) -> Callable[..., Any]:
    """Return an operator that casts its arguments first."""

    autocast = torch._C.DispatchKeySet(_KEYS.AutocastPrivateUse1)

    def run(*arguments: Any, **keywords: Any) -> Any:
        # torch has no public way to leave autocast for one call.
        with torch._C.DisableTorchFunction(), torch._C._ExcludeDispatchKeyGuard(autocast):
            dtype = wanted((arguments, list(keywords.values())))
            given = [_cast(value, dtype) for value in arguments]
            return operator(*given, **{name: _cast(value, dtype) for name, value in keywords.items()})

    return run


def _lower(arguments: Any) -> torch.dtype | None:
    return torch.get_autocast_dtype("npu")


def _float32(arguments: Any) -> torch.dtype | None:
    return torch.float32


def _widest(arguments: Any) -> torch.dtype | None:
    dtypes = {tensor.dtype for tensor in _tensors(arguments) if _is_eligible(tensor)}
    return torch.float32 if torch.float32 in dtypes else next(iter(dtypes), None)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in _tensors(each)] if isinstance(value, (list, tuple)) else []


def _cast(value: Any, dtype: torch.dtype | None) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if dtype is not None and _is_eligible(value) else value
    return [_cast(each, dtype) for each in value] if isinstance(value, (list, tuple)) else value


def _is_eligible(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.device.type == "npu" and tensor.dtype is not torch.float64
