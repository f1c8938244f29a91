"""An independent way to the same gradients: every input of every call gets a node of its own.

The recorder inserts nothing and reads gradients off the graph's own nodes. The oracle does
the opposite: it hands each call views of its inputs, made for that call alone, and asks
autograd for the gradient of each. It changes the graph, so it runs in a training of its own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchparity.ops import Kind, describe_function


class Oracle(TorchFunctionMode):
    """Collects, by record name, the gradients that autograd computes for a call's inputs and outputs."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[str, int] = {}
        self.gradients: dict[str, torch.Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        api = describe_function(func)
        if api.kind is not Kind.COMPUTES or torch._C._current_graph_task_id() != -1:
            return func(*args, **kwargs)
        number = self._numbers.get(api.name, 0)
        self._numbers[api.name] = number + 1
        name = f"{api.name}.{number}.backward"
        if not torch.is_grad_enabled() or _writes_in_place(func, kwargs):
            return func(*args, **kwargs)
        aliases: dict[int, torch.Tensor] = {}
        fresh = self._fresh(args, f"{name}.output", aliases)
        fresh_kwargs = {key: self._fresh(value, f"{name}.output.{key}", aliases) for key, value in kwargs.items()}
        output = func(*fresh, **fresh_kwargs)
        return self._watch_outputs(output, f"{name}.input")

    def _fresh(self, value: Any, name: str, aliases: dict[int, torch.Tensor]) -> Any:
        if isinstance(value, torch.Tensor) and value.requires_grad:
            # One tensor given twice has one gradient, the sum: both places share the view.
            if id(value) not in aliases:
                aliases[id(value)] = value.view_as(value)
            alias = aliases[id(value)]
            alias.register_hook(lambda gradient: self._store(name, gradient))
            return alias
        if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
            entries = [self._fresh(entry, f"{name}.{index}", aliases) for index, entry in enumerate(value)]
            return type(value)(entries) if type(value) in (list, tuple) else value
        return value

    def _watch_outputs(self, output: Any, name: str) -> Any:
        outputs = output if isinstance(output, (list, tuple)) else [output]
        for index, tensor in enumerate(outputs):
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                tensor.register_hook(lambda gradient, index=index: self._store(f"{name}.{index}", gradient))
        return output

    def _store(self, name: str, gradient: torch.Tensor) -> None:
        self.gradients[name] = gradient.detach().clone()


def _writes_in_place(func: Any, kwargs: dict[str, Any]) -> bool:
    name = getattr(func, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or name == "__setitem__" or kwargs.get("inplace") is True
