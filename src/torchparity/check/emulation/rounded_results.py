"""A dispatch mode that rounds every operator's result to a dtype, and keeps it in the one it is computed in."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torchparity.check.emulation.gelu_steps import gelu, gradient_of_gelu
from torchparity.check.emulation.moved_inputs import HALF_BITS, fraction_bits, uniform

_aten = torch.ops.aten
# A copy makes no new numbers, and inputs that were moved by less than the dtype can show must stay so.
_COPIES = frozenset({_aten.clone, _aten.copy_, _aten._to_copy, _aten.lift_fresh_copy, _aten.fill_, _aten.zero_})
_SUMS = frozenset({_aten.add, _aten.sub, _aten.add_, _aten.sub_})
_GELUS = frozenset({_aten.gelu, _aten.gelu_backward})
_STEPS = 1.5  # ULPs, half of them up: what is a number of the dtype already may become the next one


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
        if func.overloadpacket is _aten.convolution and args[2] is not None and self._bits <= HALF_BITS:
            return self._with_bias(func, args)
        if func is _aten._log_softmax.default and self._is_wider(args[0]):
            return self._log_softmax(args[0], args[1])
        if func is _aten._log_softmax_backward_data.default and self._is_wider(args[0]):
            return self._gradient_of_log_softmax(args[0], args[1], args[2])
        if func.overloadpacket in _GELUS and self._bits > HALF_BITS and self._is_wider(args[0]):
            form = (kwargs or {}).get("approximate", "none")
            if func.overloadpacket is _aten.gelu:
                return gelu(args[0], form, self._rounded)
            return gradient_of_gelu(args[0], args[1], form, self._rounded)
        if _is_scaled_sum(func, kwargs or {}):
            return self._scaled_sum(func, args, (kwargs or {})["alpha"])
        results = func(*args, **(kwargs or {}))
        if not _is_view(func) and func.overloadpacket not in _COPIES:
            self._calls += 1
            for result in tree_leaves(results):
                if isinstance(result, torch.Tensor) and self._is_wider(result):
                    self._round(result)
        return results

    def _spacing(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return one ULP of the tested dtype at each number."""
        facts = torch.finfo(self._tested)
        powers = torch.frexp(numbers.abs().clamp_min(facts.smallest_normal)).exponent - 1
        return torch.ldexp(torch.full_like(numbers, facts.eps), powers)

    def _scaled_sum(self, func: Any, args: tuple[Any, ...], alpha: Any) -> Any:
        """Return a sum whose second term is rounded before it is added, and so is the number that scales it."""
        factor = torch.tensor(alpha, dtype=self._tested).item()
        scaled = self._rounded(args[1] * factor) if isinstance(args[1], torch.Tensor) else args[1] * factor
        return self._rounded(func(args[0], scaled))

    def _with_bias(self, func: Any, args: tuple[Any, ...]) -> torch.Tensor:
        """Return a convolution that is rounded before its bias is added, as cuDNN's is."""
        result = self._rounded(func(*args[:2], None, *args[3:]))
        channels = [-1] + [1] * (args[1].dim() - 2)
        return self._rounded(result.add_(args[2].reshape(channels)))

    def _log_softmax(self, inputs: torch.Tensor, dim: int) -> torch.Tensor:
        """Return a log-softmax with its sum rounded: near 1 nothing of the small powers is left in it."""
        shifted = inputs - inputs.amax(dim, keepdim=True)
        return self._rounded(shifted - self._rounded(shifted.exp().sum(dim, keepdim=True)).log())

    def _gradient_of_log_softmax(self, gradient: torch.Tensor, output: torch.Tensor, dim: int) -> torch.Tensor:
        """Return the gradient with its powers rounded: near 1 they cancel with what they are subtracted from."""
        powers = self._rounded(output.exp())
        return self._rounded(gradient - powers * gradient.sum(dim, keepdim=True))

    def _rounded(self, result: torch.Tensor) -> torch.Tensor:
        self._calls += 1
        if self._is_wider(result):
            self._round(result)
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
            share = uniform(numbers, seed) - 0.5
            if self._bits <= HALF_BITS:
                wanted = numbers + share * _STEPS * self._spacing(numbers)
            else:
                wanted = numbers * (1 + share * 2.0**-self._bits)
        numbers.copy_(wanted.to(tested))


def _is_scaled_sum(func: Any, kwargs: dict[str, Any]) -> bool:
    return func.overloadpacket in _SUMS and kwargs.get("alpha", 1) != 1


def _is_view(func: Any) -> bool:
    """Tell whether results share memory with an argument that is not written."""
    returned = func._schema.returns
    return any(value.alias_info is not None and not value.alias_info.is_write for value in returned)
