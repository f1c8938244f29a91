"""A dispatch mode that rounds every operator's result to a dtype, and keeps it in the one it is computed in."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torchparity.check.emulation.moved_inputs import HALF_BITS, fraction_bits, uniform

_aten = torch.ops.aten
# A copy makes no new numbers, and inputs that were moved by less than the dtype can show must stay so.
_COPIES = frozenset({_aten.clone, _aten.copy_, _aten._to_copy, _aten.lift_fresh_copy, _aten.fill_, _aten.zero_})


class RoundedResults(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Round every operator's floating-point results to `tested`; sample 0 to nearest, the others up or down as well."""

    def __init__(self, tested: torch.dtype, number: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tested, self._number = tested, number
        self._bits = fraction_bits(tested)
        self._calls = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        bias = self._bias_added_last(func, args)
        if bias is not None:
            return self._with_bias(func, args, bias)
        results = func(*args, **(kwargs or {}))
        if not _is_view(func) and func.overloadpacket not in _COPIES:
            self._calls += 1
            for result in tree_leaves(results):
                if isinstance(result, torch.Tensor) and self._is_wider(result):
                    self._round(result)
        return results

    def _bias_added_last(self, func: Any, args: tuple[Any, ...]) -> torch.Tensor | None:
        """Return the bias of a convolution in half precision: cuDNN's result is rounded before it is added."""
        is_convolution = func.overloadpacket is _aten.convolution and self._bits <= HALF_BITS
        return args[2] if is_convolution and len(args) > 2 else None

    def _with_bias(self, func: Any, args: tuple[Any, ...], bias: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = func(*args[:2], None, *args[3:])
        channels = [-1] + [1] * (args[1].dim() - 2)
        self._calls += 1
        self._round(result)
        self._calls += 1
        self._round(result.add_(bias.reshape(channels)))
        return result

    def _is_wider(self, result: torch.Tensor) -> bool:
        is_float = result.is_floating_point() or result.is_complex()
        is_plain = result.layout == torch.strided and not result.is_meta and result.numel() > 0
        return is_float and is_plain and fraction_bits(result.dtype) > self._bits

    def _round(self, result: torch.Tensor) -> None:
        """Round in place: an in-place operator returns what it was given."""
        numbers = torch.view_as_real(result) if result.is_complex() else result
        if any(step == 0 for step in numbers.stride()):  # expanded: several elements share their memory
            return
        tested = torch.empty(0, dtype=self._tested).real.dtype
        wanted = numbers
        if self._number:
            seed = 1 + 2 * (self._number + (self._calls << 8))
            wanted = numbers * (1 + (uniform(numbers, seed) - 0.5) * 2.0**-self._bits)
        numbers.copy_(wanted.to(tested))


def _is_view(func: Any) -> bool:
    """Tell whether results share memory with an argument that is not written."""
    returned = func._schema.returns
    return any(value.alias_info is not None and not value.alias_info.is_write for value in returned)
