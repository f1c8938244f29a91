"""Faults inside a recorded call: what it received is right, what it returned or handed back is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch

from tests.faultbed.catalogue import Catalogue
from tests.faultbed.fault import Fault, Truth
from tests.faultbed.plant import Alter, Change, PlantedCall, wrong_gradient, wrong_inputs, wrong_output
from tests.faultbed.program import Program
from torchparity.comparing.judging.verdict import Kind

Places = Callable[[Catalogue, Program], Sequence[str]]
MATMULS = ("Functional.linear", "Functional.conv1d", "Functional.conv2d", "Torch.addmm", "Torch.matmul", "VF.lstm")
UPDATES = {
    "adamw": "Tensor.addcdiv_",
    "foreach": "Torch._foreach_addcdiv_",
    "fused": "Torch._fused_adamw_",
    "sgd": "Tensor.add_",
}


def _calls(*ops: str) -> Places:
    return lambda catalogue, program: catalogue.calls(*ops)


def _of_gradient(catalogue: Catalogue, program: Program) -> Sequence[str]:
    ops = (*MATMULS[:-1], "Functional.layer_norm", "Functional.gelu", "Functional.silu", "Tensor.mul", "Torch.tanh")
    return [name for name in catalogue.calls(*ops) if catalogue.has_gradient(name)]


def _updates(catalogue: Catalogue, program: Program) -> Sequence[str]:
    op = UPDATES[program.subject.optimizer]
    return [name for name in catalogue.names if name.startswith(f"{op}.") and catalogue.is_in_optimizer(name)]


def _positions(catalogue: Catalogue, program: Program) -> Sequence[str]:
    """Return where positions enter: halves that RoPE puts together, or the embedding of positions."""
    halves = [name for name in catalogue.calls("Torch.cat") if catalogue.has_backward(name)]
    if halves and catalogue.calls("Tensor.cos"):
        return halves
    named = [(name, " ".join(catalogue.same_call(name))) for name in catalogue.calls("Functional.embedding")]
    return [name for name, names in named if "position" in names or "wpe" in names or "relative" in names]


def _inside(make: Callable[[float], Change], kind: Kind = Kind.OPERATOR) -> Callable[..., Truth]:
    def plant(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
        program.below.append(PlantedCall(place, make(amount)))
        return Truth(catalogue.same_call(place), frozenset({kind}))

    return plant


def _in_backward(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    program.below.append(PlantedCall(place, wrong_gradient(_scaled(amount))))
    return Truth(catalogue.same_backward(place), frozenset({Kind.OPERATOR}))


def _scaled(amount: float) -> Alter:
    return lambda value: value * (1 + amount)


def _round_mantissa(bits: float) -> Alter:
    """Return a rounding of float32 to so many bits of mantissa, ties away from zero."""
    dropped = 23 - int(bits)

    def alter(value: torch.Tensor) -> torch.Tensor:
        if value.dtype != torch.float32:
            return value
        whole = value.contiguous().view(torch.int32)
        return ((whole + (1 << (dropped - 1))) & ~((1 << dropped) - 1)).view(torch.float32)

    return alter


def _flip_bit(bit: float, value: torch.Tensor) -> torch.Tensor:
    flat = value.contiguous().view(-1)
    place = int(flat.abs().argmax())
    flat.view(torch.int32)[place] ^= 1 << int(bit)
    return flat.view(value.shape)


def _add_noise(amount: float, value: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(11)
    noise = torch.randn(value.shape, generator=generator)
    return value + amount * value.norm() / math.sqrt(value.numel()) * noise


def _one_nan(value: torch.Tensor) -> torch.Tensor:
    value.view(-1)[value.numel() // 2] = math.nan
    return value


def _overflow(value: torch.Tensor) -> torch.Tensor:
    return value.masked_fill(value.abs() > 0.8 * value.abs().max(), math.inf)


def _move_positions(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    """Swap the halves that RoPE puts together, or move the embeddings of positions by one."""

    def move(value: torch.Tensor) -> torch.Tensor:
        return value.roll(value.shape[-1] // 2, -1) if place.startswith("Torch.cat") else value.roll(1, -2)

    program.below.append(PlantedCall(place, wrong_output(move)))
    return Truth(catalogue.same_call(place), frozenset({Kind.OPERATOR}))


def _update(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    program.below.append(PlantedCall(place, wrong_output(_scaled(amount))))
    if program.subject.optimizer != "fused":
        return Truth(catalogue.same_call(place), frozenset({Kind.OPERATOR}))
    kinds = frozenset({Kind.OPERATOR, Kind.UNRECORDED})
    return Truth(catalogue.same_call(place), kinds, kernel_returns_nothing=True)


def _temper(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    """Multiply the scores; those of T5, which are not scaled, show less as much."""
    share = amount / 50 if program.subject.name == "t5" else amount
    program.below.append(PlantedCall(place, wrong_inputs(_scaled(share), only_first=True)))
    return Truth(catalogue.same_call(place), frozenset({Kind.OPERATOR}))


_ACTIVATIONS = ("Functional.gelu", "Functional.silu", "Functional.relu", "Torch.tanh")
_SUMS = ("Functional.layer_norm", "Tensor.mean", "Functional.batch_norm", "Functional.cross_entropy")
_SOFTMAXES = ("Functional.softmax", "Functional.scaled_dot_product_attention")
_ANY = (*MATMULS, *_ACTIVATIONS, *_SUMS[:3], *_SOFTMAXES, "Functional.embedding", "Tensor.add", "Tensor.mul")
_scaled_first = partial(wrong_inputs, only_first=True)
FAULTS = (
    Fault(
        "low-precision matmul",
        _calls(*MATMULS),
        _inside(lambda bits: wrong_inputs(_round_mantissa(bits))),
        (7, 12, 18),
    ),
    Fault("low-precision sum", _calls(*_SUMS), _inside(lambda bits: _scaled_first(_round_mantissa(bits))), (5, 10, 17)),
    Fault("softmax", _calls(*_SOFTMAXES), _temper, (9.0, 0.1, 3e-4)),
    Fault(
        "activation", _calls(*_ACTIVATIONS), _inside(lambda amount: _scaled_first(_scaled(amount))), (0.1, 3e-4, 2e-6)
    ),
    Fault(
        "RoPE",
        _calls("Tensor.cos", "Tensor.sin"),
        _inside(lambda amount: _scaled_first(_scaled(amount))),
        (0.1, 3e-4, 2e-6),
    ),
    Fault("position order", _positions, _move_positions),
    Fault("flipped bit", _calls(*_ANY), _inside(lambda bit: wrong_output(partial(_flip_bit, bit))), (24, 15, 5)),
    Fault(
        "noise", _calls(*_ANY), _inside(lambda amount: wrong_output(partial(_add_noise, amount))), (1e-2, 1e-4, 1e-6)
    ),
    Fault("NaN", _calls(*_ANY), _inside(lambda amount: wrong_output(_one_nan), Kind.NONFINITE)),
    Fault("overflow", _calls(*_ANY), _inside(lambda amount: wrong_output(_overflow), Kind.NONFINITE)),
    Fault("wrong gradient", _of_gradient, _in_backward, (0.1, 3e-4, 2e-6)),
    Fault("optimizer kernel", _updates, _update, (1e-2, 1e-4, 1e-6)),
)
