"""Results whose subnormal numbers became zero."""

from __future__ import annotations

from typing import Any

import torch

from torchparity.simulation.call import HostCall, Kernel

_COPIES = frozenset({"_copy_from", "_copy_from_and_resize", "empty", "empty_strided", "set", "resize_"})


class FlushedSubnormals:
    """Flushes numbers too small for full precision to zero in whatever an operator computes."""

    def concerns(self, name: str) -> bool:
        return name not in _COPIES

    def run(self, call: HostCall, kernel: Kernel) -> Any:
        result = kernel(call)
        if _is_view(call):
            return result
        for output in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(output, torch.Tensor) and output.is_floating_point() and output.numel():
                tiny = output.abs() < torch.finfo(output.dtype).tiny
                if bool((tiny & (output != 0)).any()):
                    output.masked_fill_(tiny, 0)
        return result


def _is_view(call: HostCall) -> bool:
    aliases = [each.alias_info for each in call.operator._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)
