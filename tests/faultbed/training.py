"""Faults of what a training starts from: data, weights, buffers, and the settings of its optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from tests.faultbed.catalogue import Catalogue
from tests.faultbed.fault import Fault, Truth
from tests.faultbed.program import Program
from torchparity.comparing.judging.verdict import Kind

_ARGUMENT = frozenset({Kind.ARGUMENT})
_ADAM = ("adamw", "foreach", "fused")
# The first call of an optimizer that has the setting among its arguments; weight decay comes first and has the rate.
_CALLS = {
    "lr": ("Tensor.mul_", "Torch._foreach_mul_", "Torch._fused_adamw_", "Tensor.add_"),
    "weight_decay": ("Tensor.mul_", "Torch._foreach_mul_", "Torch._fused_adamw_", "Tensor.add"),
    "beta1": ("Tensor.lerp_", "Torch._foreach_lerp_", "Torch._fused_adamw_", ""),
    "beta2": ("Tensor.mul_", "Torch._foreach_mul_", "Torch._fused_adamw_", ""),
    "eps": ("Tensor.add_", "Torch._foreach_add_", "Torch._fused_adamw_", ""),
    "momentum": ("", "", "", "Tensor.mul_"),
}


def _call_of(program: Program, setting: str) -> str:
    return _CALLS[setting][(*_ADAM, "sgd").index(program.subject.optimizer)]


def _setting(setting: str) -> Callable[[Catalogue, Program], Sequence[str]]:
    return lambda catalogue, program: [setting] if _call_of(program, setting) else []


def _other_setting(program: Program, catalogue: Catalogue, setting: str, amount: float) -> Truth:
    """Multiply a setting; a beta moves towards 1 by a share of what is left."""
    settings = program.settings
    if setting.startswith("beta"):
        place = int(setting[-1]) - 1
        betas = list(settings["betas"])
        betas[place] = 1 - (1 - betas[place]) / (1 + amount)
        settings["betas"] = tuple(betas)
    else:
        settings[setting] *= 1 + amount
    step = 1 if setting == "momentum" else 0  # the first step has no momentum yet
    return Truth(frozenset(), _ARGUMENT, step=step, family=_call_of(program, setting))


def _clip(catalogue: Catalogue, program: Program) -> Sequence[str]:
    return catalogue.calls("Tensor.__rtruediv__")


def _other_clipping(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    program.max_norm *= 1 + amount
    return Truth(catalogue.same_call(place), _ARGUMENT)


def _inputs(catalogue: Catalogue, program: Program) -> Sequence[str]:
    return [next(iter(program.batches[0]))]


def _one_value(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    """Change one token, or one number of the data; a token has no strengths."""
    for batch in program.batches:
        values = batch[place] = batch[place].clone()
        if values.is_floating_point():
            flat = values.view(-1)
            flat[7] += amount * flat.abs().max()
        else:
            values[0, 3] = values[0, 3] % 40 + 3
    return Truth(frozenset(), frozenset({Kind.DATA}))


def _owners(catalogue: Catalogue, program: Program, name: str) -> list[str]:
    """Return the linear and norm calls whose module has a parameter of this name and shares it with nobody."""
    uses: dict[int, int] = {}
    for module in program.model.modules():
        for parameter in module.parameters(recurse=False):
            uses[id(parameter)] = uses.get(id(parameter), 0) + 1
    found = []
    for call in catalogue.calls("Functional.linear", "Functional.layer_norm", "Functional.conv1d", "Functional.conv2d"):
        module = _module_of(catalogue, program, call)
        parameter = getattr(module, name, None)
        if isinstance(parameter, nn.Parameter) and uses.get(id(parameter)) == 1:
            found.append(call)
    return found


def _module_of(catalogue: Catalogue, program: Program, call: str) -> nn.Module | None:
    modules = [name for name in catalogue.same_call(call) if name.startswith("Module.")]
    if not modules:
        return None
    return program.model.get_submodule(modules[0].removeprefix("Module.").rsplit(".", 3)[0])


def _one_parameter(name: str) -> Callable[..., Truth]:
    def plant(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
        parameter = getattr(_module_of(catalogue, program, place), name)
        with torch.no_grad():
            flat = parameter.view(-1)
            flat[flat.numel() // 3] += amount * (flat.abs().max() or 1.0)
        return Truth(catalogue.same_call(place), frozenset({Kind.WEIGHTS}))

    return plant


def _buffers(catalogue: Catalogue, program: Program) -> Sequence[str]:
    floating = [name for name, buffer in program.model.named_buffers() if buffer.is_floating_point()]
    return [name for name in floating if not name.endswith("original_inv_freq")]


def _stale_buffer(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    with torch.no_grad():
        buffer = program.model.get_buffer(place)
        buffer += amount * (buffer.abs().max() or 1.0)
    return Truth(frozenset(), frozenset({Kind.WEIGHTS}))


def _tied(catalogue: Catalogue, program: Program) -> Sequence[str]:
    """Return the path of the head whose weight is the embedding's."""
    shared = {id(module.weight) for module in program.model.modules() if isinstance(module, nn.Embedding)}
    named = program.model.named_modules()
    return [path for path, module in named if isinstance(module, nn.Linear) and id(module.weight) in shared]


def _untie(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    """Give the head a weight of its own with the same values: gradients are no longer summed.

    Nothing differs before the gradient of the weight; clipping is the next that shows it.
    """
    head = program.model.get_submodule(place)
    path = next(
        name
        for name, module in program.model.named_modules()
        if isinstance(module, nn.Embedding) and module.weight is head.weight
    )
    head.weight = nn.Parameter(head.weight.detach().clone())
    records = {f"Module.{path}.Embedding.parameters_grad.0", f"Module.{place}.Linear.parameters_grad.0"}
    kinds = {Kind.WEIGHTS, Kind.MISSING_GRADIENT, Kind.OPERATOR, Kind.UNRECORDED, Kind.SHAPE, Kind.ARGUMENT}
    return Truth(frozenset(records | {"Torch._foreach_norm.0.forward"}), frozenset(kinds), alone=True)


_RATES = (0.5, 1e-3, 1e-6)
FAULTS = (
    Fault("learning rate", _setting("lr"), _other_setting, _RATES),
    Fault("weight decay", _setting("weight_decay"), _other_setting, _RATES),
    Fault("first beta", _setting("beta1"), _other_setting, _RATES),
    Fault("second beta", _setting("beta2"), _other_setting, _RATES),
    Fault("optimizer epsilon", _setting("eps"), _other_setting, _RATES),
    Fault("momentum", _setting("momentum"), _other_setting, _RATES),
    Fault("clipping", _clip, _other_clipping, (-0.5, -1e-3, 1e-6)),
    Fault("one value of the data", _inputs, _one_value, (1.0, 1e-3, 1e-6)),
    Fault("one weight", lambda c, p: _owners(c, p, "weight"), _one_parameter("weight"), (1.0, 1e-2, 1e-4)),
    Fault("one bias", lambda c, p: _owners(c, p, "bias"), _one_parameter("bias"), (1.0, 1e-2, 1e-4)),
    Fault("stale buffer", _buffers, _stale_buffer, (0.1, 1e-3, 1e-6)),
    Fault("untied weights", _tied, _untie),
)
