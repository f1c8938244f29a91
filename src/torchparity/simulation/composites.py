"""Functions that torch composes in another way on a device like this one than on the CPU: here as on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torchparity.simulation.execution import Execution
from torchparity.simulation.memory import device_storage, device_tensor, host_alias, is_simulated

_aten = torch.ops.aten
WHOLE_ON_THE_HOST = ("lstm.input", "lstm.data", "gru.input", "gru.data", "lstm_cell", "gru_cell")
_FLASH = 1  # torch.nn.attention.SDPBackend.FLASH_ATTENTION


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Choose between flash and plain attention as the CPU does."""
    with torch._C.DisableTorchFunction():
        asked = [_like_on_host(tensor) for tensor in (query, key, value)]
        mask = None if attn_mask is None else _like_on_host(attn_mask)
        choice = _aten._fused_sdp_choice(
            *asked, mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
        )
        if choice != _FLASH:
            plain: torch.Tensor = _aten._scaled_dot_product_attention_math(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )[0]
            return plain
        added = _added(attn_mask, query.dtype)
        flash: torch.Tensor = _aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, dropout_p, is_causal, attn_mask=added, scale=scale
        )[0]
        return flash


def on_the_host(execution: Execution, operator: torch._ops.OpOverload) -> Callable[..., Any]:
    """Return a function that computes an operator, and later its gradients, on the host as a whole."""

    whole: Callable[..., Any] = _Whole.apply

    def run(*arguments: Any, **keywords: Any) -> Any:
        with torch._C.DisableTorchFunction():
            tensors: list[torch.Tensor] = []
            form = [_taken(value, tensors) for value in arguments]
            results = whole(execution, operator, form, keywords, *tensors)
        return results[0] if len(results) == 1 else results

    return run


class _Whole(torch.autograd.Function):
    """Runs an operator on the host with a graph of its own, which backward goes through."""

    @staticmethod
    def forward(
        ctx: Any, execution: Execution, operator: Any, form: list[Any], keywords: dict[str, Any], *given: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.given = [_like_on_host(tensor) for tensor in given]
        with torch.enable_grad(), _drawing_from(execution.draws_from()):
            results = operator(*[_put_back(value, ctx.given) for value in form], **keywords)
        ctx.results = (results,) if isinstance(results, torch.Tensor) else tuple(results)
        return tuple(_on_device(result.detach()) for result in ctx.results)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[Any, ...]:
        with torch._C.DisableTorchFunction():
            wanted = [tensor for tensor in ctx.given if tensor.requires_grad]
            pairs = [
                (out, host_alias(grad)) for out, grad in zip(ctx.results, gradients, strict=True) if grad is not None
            ]
            pairs = [(out, grad) for out, grad in pairs if out.requires_grad]
            results, given = zip(*pairs, strict=True)
            found = iter(torch.autograd.grad(results, wanted, given, retain_graph=True, allow_unused=True))
            each = [next(found) if tensor.requires_grad else None for tensor in ctx.given]
            return (None, None, None, None, *(None if grad is None else _on_device(grad) for grad in each))


def _added(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """Return a mask as numbers to add, as torch does with one of booleans."""
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask.logical_not(), float("-inf"))


def _like_on_host(tensor: torch.Tensor) -> torch.Tensor:
    host = host_alias(tensor) if is_simulated(tensor) else tensor.detach()
    return host.requires_grad_(tensor.requires_grad)


def _on_device(host: torch.Tensor) -> torch.Tensor:
    return device_tensor(host, device_storage(host.untyped_storage()))


def _taken(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Return an argument with its tensors taken out; `_put_back` finds them by their place."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return _Place(len(tensors) - 1)
    return [_taken(each, tensors) for each in value] if isinstance(value, (list, tuple)) else value


def _put_back(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, _Place):
        return tensors[value.index]
    return [_put_back(each, tensors) for each in value] if isinstance(value, list) else value


class _Place:
    """The place of a tensor among those of a call."""

    def __init__(self, index: int) -> None:
        self.index = index


@contextmanager
def _drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Let the CPU's operators draw what `generator` would draw."""
    if generator is torch.default_generator:
        yield
        return
    own = torch.default_generator.get_state()
    torch.default_generator.set_state(generator.get_state())
    try:
        yield
    finally:
        generator.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(own)
