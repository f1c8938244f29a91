"""Faults of the program: a call with another argument, other random numbers, a branch without a gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.faultbed.catalogue import Catalogue
from tests.faultbed.fault import Fault, Truth
from tests.faultbed.plant import PlantedCall, argument
from tests.faultbed.program import Program
from torchparity.comparing.judging.verdict import Kind
from torchparity.records import TensorLeaf

_ARGUMENT = frozenset({Kind.ARGUMENT})
_ATTENTION = "Functional.scaled_dot_product_attention"
_EPSILON = {"Functional.layer_norm": 4, "Functional.batch_norm": 7, "Tensor.add": 1}
_RATE = {"Functional.dropout": ("p", 1), "VF.lstm": ("dropout", 5), _ATTENTION: ("dropout_p", 4)}
_BIAS = {"Functional.linear": 2, "Functional.conv1d": 2, "Functional.conv2d": 2}


def _op(record: str) -> str:
    return record.rsplit(".", 2)[0]


def _norms(catalogue: Catalogue, program: Program) -> Sequence[str]:
    """Return the norms of torch, and additions of a small number to a mean of squares."""
    calls = [name for name in catalogue.calls(*_EPSILON) if catalogue.is_before_backward(name)]
    return [name for name in calls if isinstance(catalogue.argument(name, "eps", _EPSILON[_op(name)]), float)]


def _epsilon(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    """Add a share of the variance to the epsilon."""
    leaf = catalogue.records[place].input_args[0]
    assert isinstance(leaf, TensorLeaf) and leaf.statistics is not None
    norm = float(leaf.statistics.norm or 0.0)
    variance = norm / math.sqrt(leaf.numel) if _op(place) == "Tensor.add" else norm**2 / leaf.numel
    program.above.append(PlantedCall(place, argument("eps", _EPSILON[_op(place)], lambda eps: eps + amount * variance)))
    return Truth(catalogue.same_call(place), _ARGUMENT)


def _gelus(catalogue: Catalogue, program: Program) -> Sequence[str]:
    return catalogue.calls("Functional.gelu")


def _gelu_form(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    program.above.append(PlantedCall(place, argument("approximate", None, "tanh")))
    return Truth(catalogue.same_call(place), _ARGUMENT)


def _biased(catalogue: Catalogue, program: Program) -> Sequence[str]:
    calls = catalogue.calls(*_BIAS)
    return [name for name in calls if isinstance(catalogue.argument(name, "bias", 2), TensorLeaf)]


def _no_bias(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    program.above.append(PlantedCall(place, argument("bias", 2, None)))
    return Truth(catalogue.same_call(place), _ARGUMENT)


def _scores(catalogue: Catalogue, program: Program) -> Sequence[str]:
    """Return calls of fused attention, or the multiplication that scales the scores of one that is written out."""
    scaled = [name for name in catalogue.calls("Tensor.mul") if isinstance(catalogue.argument(name, "", 1), float)]
    inside = [name for name in scaled if catalogue.has_gradient(name)]
    return catalogue.calls(_ATTENTION) or inside


def _attention_scale(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    """Scale the scores; those of T5, which has no scale, show less as much."""
    amount = amount / 50 if program.subject.name == "t5" else amount
    if _op(place) != _ATTENTION:
        change = argument("other", 1, lambda scale: scale * (1 + amount))
    else:
        leaf = catalogue.records[place].input_args[0]
        assert isinstance(leaf, TensorLeaf)
        right = 1 / math.sqrt(leaf.shape[-1])
        change = argument("scale", None, lambda scale: (right if scale is None else scale) * (1 + amount))
    program.above.append(PlantedCall(place, change))
    return Truth(catalogue.same_call(place), _ARGUMENT)


def _masked(catalogue: Catalogue, program: Program) -> Sequence[str]:
    """Return calls of attention, or the addition of a mask where it is written out."""
    softmax = catalogue.calls("Functional.softmax")
    if attention := catalogue.calls(_ATTENTION):
        return attention
    names = [name for name in catalogue.names if name.endswith(".forward")]
    before = [names[names.index(name) - 1] for name in softmax]
    return [name for name in before if _op(name) == "Tensor.add"]


def _mask(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    """Hide one key more from every query, as a mask that is shifted or too short does."""

    def hide(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if _op(place) != _ATTENTION:
            return func(args[0], _hidden(args[1]), *args[2:], **kwargs)
        given = dict(zip(("query", "key", "value", "attn_mask"), args, strict=False)) | kwargs
        mask = given.get("attn_mask")
        if mask is None and kwargs.get("is_causal"):
            return func(*args, **{**kwargs, "is_causal": False})
        if mask is None:
            with torch._C.DisableTorchFunction():
                mask = torch.zeros(given["query"].shape[-2], given["key"].shape[-2])
        return func(*args[:3], **{**kwargs, "attn_mask": _hidden(mask)})

    program.above.append(PlantedCall(place, hide))
    return Truth(catalogue.same_call(place), frozenset({Kind.ARGUMENT, Kind.DATA, Kind.UNRECORDED}))


def _hidden(mask: torch.Tensor) -> torch.Tensor:
    """Return a copy of a mask that hides the first key but from the first query; nobody records its making."""
    with torch._C.DisableTorchFunction():
        mask = mask.detach().clone()
        mask[..., 1:, 0] = False if mask.dtype == torch.bool else torch.finfo(mask.dtype).min
        return mask


def _droppers(catalogue: Catalogue, program: Program) -> Sequence[str]:
    calls = catalogue.calls(*_RATE)
    return [name for name in calls if catalogue.argument(name, *_RATE[_op(name)])]


def _dropout_rate(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    name, position = _RATE[_op(place)]
    program.above.append(PlantedCall(place, argument(name, position, lambda rate: rate + amount)))
    return Truth(catalogue.same_call(place), _ARGUMENT)


def _other_seed(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    def draw_before(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        with torch._C.DisableTorchFunction():
            torch.manual_seed(4711)
        return func(*args, **kwargs)

    program.above.append(PlantedCall(place, draw_before))
    return Truth(catalogue.same_call(place), frozenset({Kind.RANDOM}))


def _losses(catalogue: Catalogue, program: Program) -> Sequence[str]:
    return catalogue.calls("Functional.cross_entropy")


def _loss_reduction(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    program.above.append(PlantedCall(place, argument("reduction", 6, "sum")))
    return Truth(catalogue.same_call(place), _ARGUMENT)


def _sums(catalogue: Catalogue, program: Program) -> Sequence[str]:
    """Return additions of two computed tensors: shortcuts."""
    gradients = [
        (name, catalogue.records.get(name.removesuffix("forward") + "backward"))
        for name in catalogue.calls("Tensor.add")
    ]
    return [
        name
        for name, backward in gradients
        if backward is not None and sum(isinstance(nest, TensorLeaf) for nest in backward.output) == 2
    ]


def _detach(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    """Cut the second summand off; its `detach` is recorded, as that of any program is."""

    def cut(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return func(args[0], args[1].detach(), *args[2:], **kwargs)

    program.above.append(PlantedCall(place, cut))
    return Truth(
        catalogue.same_backward(place) | {"Tensor.detach.0.forward"},
        frozenset({Kind.MISSING_GRADIENT}),
        alone=True,
    )


FAULTS = (
    Fault("norm epsilon", _norms, _epsilon, (1.0, 1e-3, 4e-6)),
    Fault("gelu form", _gelus, _gelu_form),
    Fault("missing bias", _biased, _no_bias),
    Fault("attention scale", _scores, _attention_scale, (7.0, 0.25, 1e-3)),
    Fault("mask", _masked, _mask),
    Fault("dropout rate", _droppers, _dropout_rate, (0.4, 1e-3, 1e-6)),
    Fault("other seed", _droppers, _other_seed),
    Fault("loss reduction", _losses, _loss_reduction),
    Fault("detached branch", _sums, _detach),
)
