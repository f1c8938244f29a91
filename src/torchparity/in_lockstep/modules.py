"""Modules of the two models that stand in each other's place, whatever their classes are called."""

from __future__ import annotations

from torch import nn
from torch.nn.parameter import is_lazy

from torchparity.calls import named_modules

Shapes = dict[str, tuple[int, ...]]


def module_partners(model_a: nn.Module, model_b: nn.Module) -> dict[str, str]:
    """Return the modules of another class at the same path, by what their records begin with.

    The models themselves belong together in any case; modules inside of them where parameters and buffers have the
    same names and shapes, since another kind of layer may stand at the same place of a list.
    """
    mine, others = _by_path(model_a), _by_path(model_b)
    return {
        name: others[path][1]
        for path, (module, name) in mine.items()
        if path in others
        and name != others[path][1]
        and (not path or _shapes_of(module) == _shapes_of(others[path][0]))
    }


def _by_path(model: nn.Module) -> dict[str, tuple[nn.Module, str]]:
    paths = [path for path, _ in model.named_modules()]
    return dict(zip(paths, named_modules(model), strict=True))


def _shapes_of(module: nn.Module) -> Shapes:
    tensors = (*module.named_parameters(), *module.named_buffers())
    return {name: () if is_lazy(tensor) else tuple(tensor.shape) for name, tensor in tensors}
