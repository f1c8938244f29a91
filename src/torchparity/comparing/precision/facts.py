"""The facts about a call that its rounding follows from, and the expectation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec


class Received(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tensor that a record received, of both runs.

    `norm`, `largest` (absolute) and `mean` are the baseline's; `deviation` is the norm of the difference relative to
    `norm`. None stands where nobody knows. `is_estimated`: the deviation comes from a sketch.
    """

    name: str
    dtype: str
    baseline_dtype: str
    shape: tuple[int, ...]
    norm: float | None = None
    largest: float | None = None
    deviation: float | None = None
    mean: float | None = None
    is_estimated: bool = False


class Returned(Received, frozen=True, kw_only=True, gc=False):
    """A tensor that a record returned; its deviation is not needed to say what may be expected of it."""


class CallFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call: its operator by the canonical name and the numbers and words it was called with.

    `forward_received` is what the forward call received, for a backward record: a gradient depends on it. Its names
    are those of the forward record, so that `output.1` of backward is the gradient of `input.1`. `computes_in` is a
    dtype that one of the runs casts operands to inside of the call, as autocast does; None where none is known.
    """

    operator: str
    direction: Literal["forward", "backward"] = "forward"
    is_module: bool = False
    in_optimizer: bool = False
    arguments: Mapping[str, float | str] = {}
    uses_tf32: bool = False
    computes_in: str | None = None
    forward_received: Sequence[Received] = ()


class Expectation(msgspec.Struct, frozen=True, gc=False):
    """The deviation of an output that rounding explains, and why.

    `tolerance` is relative to the output's norm, as deviations are, and absolute where that norm is zero. `own` is the
    share of the operator's own rounding, `inherited` that of what the inputs were off by. `reason` is a clause.
    `exact_tolerance` is for a deviation that is known exactly where `tolerance` is for one that a sketch estimates.
    """

    tolerance: float
    own: float
    inherited: float
    reason: str
    exact_tolerance: float = math.inf
