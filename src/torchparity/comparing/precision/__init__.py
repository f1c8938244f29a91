from __future__ import annotations

import msgspec


class Received(msgspec.Struct, frozen=True, kw_only=True):
    dtype: str
    baseline_dtype: str
    shape: tuple
    norm: float | None
    largest: float | None
    deviation: float | None
    name: str
    is_estimated: bool = False


class Returned(Received, frozen=True, kw_only=True):
    mean: float | None = None


class CallFacts(msgspec.Struct, frozen=True, kw_only=True):
    operator: str
    direction: str
    is_module: bool
    in_optimizer: bool
    arguments: dict
    uses_tf32: bool
    forward_received: object = ()


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    tolerance: float
    own: float = 0
    inherited: float = 0
    reason: str = ""


U = {"torch.float32": 2**-24, "torch.bfloat16": 2**-8, "torch.float16": 2**-11, "torch.float64": 2**-53}


def expected(output, received, call):
    u = max([U.get(output.dtype, 0), U.get(output.baseline_dtype, 0)])
    own = 10 * u
    inh = 20 * max([r.deviation or 0 for r in received], default=0)
    return Expectation(tolerance=own + inh)
