"""Places for a fault: a call whose arguments the program changes, and a call whose kernel is wrong.

The recorder sees calls through a function mode. A mode above it changes what the recorder sees the program call; a mode
below it changes what the recorded call returns, or the gradient that it hands back: the fault lies inside the record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from torchparity.calls.guard.mode_stack import put_back, take_off
from torchparity.ops import describe_function

Change = Callable[[Callable[..., Any], Sequence[Any], dict[str, Any]], Any]
Alter = Callable[[torch.Tensor], torch.Tensor]


class PlantedCall(TorchFunctionMode):
    """Hands one call of each step, named as the recorder names it, to `change`; every other goes on as it is."""

    def __init__(self, record: str, change: Change, from_step: int = 0) -> None:
        super().__init__()
        name, index = record.removesuffix(".forward").removesuffix(".backward").rsplit(".", 1)
        self._name, self._index, self._change, self._from_step = name, int(index), change, from_step
        self._counts: Counter[str] = Counter()
        self._is_on = False

    def begin_step(self, step: int) -> None:
        self._counts.clear()
        self._is_on = step >= self._from_step

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = describe_function(func).name
        index = self._counts[name]
        self._counts[name] += 1
        if self._is_on and (name, index) == (self._name, self._index):
            return self._change(func, args, kwargs)
        return func(*args, **kwargs)


class ExactKernels(TorchFunctionMode):
    """Computes what rounds in float64 and rounds once: another rounding than float32 kernels in nearly every record."""

    FUNCTIONS = frozenset({"linear", "matmul", "__matmul__", "bmm", "conv1d", "conv2d", "layer_norm", "gelu", "silu"})
    MORE = frozenset({"scaled_dot_product_attention", "mean", "rsqrt", "softmax", "tanh", "lstm", "baddbmm", "addmm"})

    def begin_step(self, step: int) -> None:
        """Do nothing; it is the same in every step."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = describe_function(func).name.rpartition(".")[2]
        if name not in self.FUNCTIONS | self.MORE or "dtype" in kwargs:
            return func(*args, **kwargs)
        output = func(*tree_map(_double, list(args)), **tree_map(_double, kwargs))
        return tree_map(_single, output)


def _double(value: Any) -> Any:
    is_single = isinstance(value, torch.Tensor) and value.dtype == torch.float32
    return value.double() if is_single else value


def _single(value: Any) -> Any:
    is_double = isinstance(value, torch.Tensor) and value.dtype == torch.float64
    return value.float() if is_double else value


def sink(mode: TorchFunctionMode) -> None:
    """Put a mode at the bottom of this thread's stack, below the recorder's."""
    take_off(mode)
    put_back(mode, 0)


class _Replaced(torch.autograd.Function):
    """Other values with the gradient of the right ones."""

    @staticmethod
    def forward(ctx: Any, right: torch.Tensor, wrong: torch.Tensor) -> torch.Tensor:
        return wrong.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


class _Skewed(torch.autograd.Function):
    """The same values with another gradient."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, alter: Alter) -> torch.Tensor:
        ctx.alter = alter
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        with torch._C.DisableTorchFunction():  # a kernel's inside is no call of the program's
            return ctx.alter(gradients[0]), None


def _apply(function: Any, *args: Any) -> Any:
    return function.apply(*args)


def wrong_output(alter: Alter) -> Change:
    """Return a change that alters the first floating-point tensor that a call returns, in place where the call is."""

    def change(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        output = func(*args, **kwargs)
        is_list = isinstance(output, (list, tuple))
        parts = list(output) if is_list else [args[0][0] if output is None else output]  # foreach returns nothing
        place = next(i for i, part in enumerate(parts) if isinstance(part, torch.Tensor) and part.is_floating_point())
        right = parts[place]
        with torch.no_grad():
            wrong = alter(right.detach().clone())
        written = args[0] if isinstance(args[0], (list, tuple)) else args[:1]
        if output is None or any(right is each for each in written):
            with torch.no_grad():
                right.copy_(wrong)
            return output
        parts[place] = _apply(_Replaced, right, wrong) if right.requires_grad else wrong
        return type(output)(parts) if is_list else parts[0]

    return change


def wrong_inputs(alter: Alter, *, only_first: bool = False) -> Change:
    """Return a change that computes with altered floating-point arguments; the recorder saw the right ones."""

    def change(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        def altered(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.dim() == 0:
                return value
            with torch.no_grad():
                wrong = alter(value.detach().clone())
            return _apply(_Replaced, value, wrong) if value.requires_grad else wrong

        if only_first:
            return func(altered(args[0]), *args[1:], **kwargs)
        return func(*tree_map(altered, list(args)), **tree_map(altered, kwargs))

    return change


def wrong_gradient(alter: Alter) -> Change:
    """Return a change that alters the gradient which the call hands to its first argument."""

    def change(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return func(_apply(_Skewed, args[0], alter), *args[1:], **kwargs)

    return change


def argument(name: str, position: int | None, value: Any) -> Change:
    """Return a change that passes another argument, given by keyword or by position as the call has it.

    A callable makes the value from the one that was passed.
    """

    def change(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        given = list(args)
        if position is not None and position < len(given):
            given[position] = value(given[position]) if callable(value) else value
            return func(*given, **kwargs)
        return func(*given, **{**kwargs, name: value(kwargs.get(name)) if callable(value) else value})

    return change
