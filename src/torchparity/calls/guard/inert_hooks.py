"""Hooks on the user's modules and parameters that leave no trace in copies of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Hook:
    """A hook of which a copy or a pickle of the model has an idle one.

    Nor does it do anything while a compiler or tracer looks at the model, which would put
    our work into the user's graph.
    """

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work

    def __call__(self, *arguments: Any) -> Any:
        if not torch.compiler.is_compiling() and torch._C._get_tracing_state() is None:
            return self._work(*arguments)
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return Hook, (_do_nothing,)


def _do_nothing(*_: Any) -> None:
    pass


class HookedParameter:
    """A parameter that we have a hook on, before those of others: they may use the gradient up."""

    __slots__ = ("_identity", "handle")

    def __init__(self, parameter: nn.Parameter, hook: Hook) -> None:
        self._identity = id(parameter)
        self.handle: Any = parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        hooks: Any = parameter._post_accumulate_grad_hooks
        others = [(key, other) for key, other in hooks.items() if other is not hook]
        for key, _ in others:  # torch goes by the order of insertion, not by that of an OrderedDict
            del hooks[key]
        hooks.update(others)

    def is_of(self, parameter: nn.Parameter) -> bool:
        """Tell whether it is this one; where it is gone, another may be at its address."""
        return self._identity == id(parameter) and self.handle.hooks_dict_ref() is not None
