"""One torch function as calls of it are treated: its name, its kind and its effects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, lru_cache
from types import FunctionType
from typing import Any

import torch

from torchparity.ops.effects import (
    PARTIAL_WRITES,
    QUESTIONS,
    VIEW_ATTRIBUTES,
    VIEWS,
    Effect,
    effects_of,
    exposure,
    words,
)
from torchparity.ops.names import full_name, record_name

# Where rounding, reduction order or range usually go wrong.
_CORE_WORDS = words(
    """matmul mm bmm addmm baddbmm linear bilinear conv norm softmax log exp sqrt rsqrt pow div reciprocal sum mean
    var std prod cumsum attention loss entropy einsum lstm gru rnn fft linalg inv gelu silu sigmoid tanh erf
    embedding index scatter gather topk sort all_reduce reduce_scatter all_gather foreach_norm to half float
    bfloat16
    """
)


_DESCRIBED = 8192  # functions whose description is cached: torch has some 2,000


class Kind(Enum):
    """The purpose of a function."""

    COMPUTES = auto()
    VIEWS = auto()  # shows the same values in another form
    ASKS = auto()  # a question about a tensor's form, an attribute
    BACKWARD = auto()  # runs autograd's engine
    COLLECTIVE = auto()  # moves tensors between processes
    CUSTOM = auto()  # a function that the user registered
    MODULE = auto()  # no function: a module of the model


@dataclass(frozen=True, eq=False)
class Op:
    """One function; `name` is what its calls are counted under, "" where they never are."""

    name: str
    kind: Kind
    effects: Effect = Effect.NONE

    # Asked for every call, so each is an attribute that is computed once.

    @cached_property
    def writes(self) -> bool:
        """True where a call may change its arguments in place."""
        return bool(self.effects & Effect.WRITES)

    @cached_property
    def overwrites(self) -> bool:
        """True where a call that returns its first argument wrote all of it, with a new version, and nothing else."""
        name = self.name.rpartition(".")[2]
        is_usual = self.writes and self.kind is Kind.COMPUTES and not self.writes_unversioned
        return is_usual and not name.startswith(("resize_", "_fused_", "__setitem__")) and name not in PARTIAL_WRITES

    @cached_property
    def writes_unversioned(self) -> bool:
        """True where a call may change an argument without bumping `Tensor._version`."""
        return bool(self.effects & (Effect.WRITES_UNVERSIONED | Effect.WRITES_BUFFERS))

    @cached_property
    def exposes(self) -> bool:
        """True where a call hands out the memory of its arguments."""
        return bool(self.effects & Effect.EXPOSES)

    @cached_property
    def creates(self) -> bool:
        """True where a call returns memory that may be filled unseen before it is used."""
        return bool(self.effects & Effect.CREATES)

    @cached_property
    def leaves_unwritten(self) -> bool:
        """True where a call returns memory that nobody has written."""
        return bool(self.effects & Effect.UNINITIALISED)

    @cached_property
    def may_copy(self) -> bool:
        """True where a view may have memory of its own."""
        return bool(self.effects & Effect.COPIES)

    @cached_property
    def arrives_later(self) -> bool:
        """True where a call may return before its result is there."""
        return bool(self.effects & Effect.ARRIVES_LATER)

    @cached_property
    def has_gradient(self) -> bool:
        """True where a call can have gradients of its own: a collective has none."""
        return self.kind is not Kind.COLLECTIVE

    @cached_property
    def is_core(self) -> bool:
        """True where accuracy usually goes wrong in functions of this name."""
        last = self.name.rpartition(".")[2]
        return any(word in last for word in _CORE_WORDS)

    def may_write(self, tensor: torch.Tensor) -> bool:
        """Tell whether a call that writes without a new version may have written this argument."""
        return bool(self.effects & Effect.WRITES_UNVERSIONED) or not tensor.requires_grad


def describe_function(function: Callable[..., Any]) -> Op:
    """Return what is true of a function that torch hands to a function mode."""
    return _describe_cached(function) if _is_of_torch(function) else _describe(function)


def _is_of_torch(function: Callable[..., Any]) -> bool:
    """Tell whether a function lives as long as the process: a user's must not be kept alive by a cache."""
    if isinstance(function, FunctionType):
        return function.__closure__ is None and function.__module__.startswith("torch.")
    return type(function).__module__ in ("builtins", "torch._ops")


@lru_cache(maxsize=_DESCRIBED)
def _describe_cached(function: Callable[..., Any]) -> Op:
    return _describe(function)


def _describe(function: Callable[..., Any]) -> Op:
    full = full_name(function)
    # The second name is that of a wrapper which somebody has put around the method.
    is_method = full in ("torch.Tensor.backward", "torch._tensor.backward")
    if is_method or function in (torch.autograd.grad, torch.autograd.backward):
        return Op(record_name(full), Kind.BACKWARD)
    if full.endswith((".__get__", ".__set__", ".__delete__")):
        return _attribute(full)
    name = full.rpartition(".")[2]
    is_of_torch = full.startswith(("torch.", "aten.")) and not full.startswith("torch.nn.functional.")
    if full.startswith(("profiler.", "prim.")) or (is_of_torch and name in QUESTIONS):
        return Op("", Kind.ASKS, exposure(full, name))
    is_view = is_of_torch and name in VIEWS  # F.unfold, say, is no view
    return Op(record_name(full), Kind.VIEWS if is_view else Kind.COMPUTES, effects_of(function, full))


def _attribute(full: str) -> Op:
    owner, _, method = full.rpartition(".")
    name = owner.rpartition(".")[2]
    if method == "__get__" and name in VIEW_ATTRIBUTES:
        return Op(record_name(owner), Kind.VIEWS, exposure(full, name))
    writes = full.endswith((".real.__set__", ".imag.__set__"))
    return Op("", Kind.ASKS, exposure(full, name) | (Effect.WRITES if writes else Effect.NONE))
