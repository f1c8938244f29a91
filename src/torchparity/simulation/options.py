"""Options of the simulated NPU: how it rounds, what it lacks, and which faults are planted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from torchparity.errors import ConfigError, nearest
from torchparity.simulation.faults.fault import Fault
from torchparity.simulation.faults.values import wrong_value

Accumulation = Literal["bf16", "fp16", "tf32"]
ReductionOrder = Literal["reversed", "chunked"]


@dataclass(frozen=True)
class NpuBehaviour:
    """The differences of the simulated NPU from the CPU; the default differs in nothing."""

    accumulate: Accumulation | None = None  # matmuls, convolutions and attention
    reduction_order: ReductionOrder | None = None  # of sums, means and matmuls
    flush_subnormals: bool = False  # to zero, in every result
    faults: tuple[Fault, ...] = ()
    lacks: frozenset[str] = frozenset()  # ATen operators without a kernel, such as "gelu"
    falls_back_to_cpu: bool = False  # for operators without a kernel, instead of an error
    shares_cpu_generator: bool = False  # else the device draws from a generator of its own

    def __post_init__(self) -> None:
        _check_choice("accumulate", self.accumulate, get_args(Accumulation))
        _check_choice("reduction_order", self.reduction_order, get_args(ReductionOrder))
        for field in ("flush_subnormals", "falls_back_to_cpu", "shares_cpu_generator"):
            if not isinstance(getattr(self, field), bool):
                raise wrong_value(self, field, "True or False")
        if not _is_of(self.faults, (tuple, list), Fault):
            raise wrong_value(self, "faults", 'a tuple of faults, such as (NanAt("linear", 3),)')
        if not _is_of(self.lacks, (frozenset, set, tuple, list), str):
            raise wrong_value(self, "lacks", 'a set of names of operators, such as {"gelu"}')
        object.__setattr__(self, "faults", tuple(self.faults))
        object.__setattr__(self, "lacks", frozenset(self.lacks))


def _is_of(values: object, kinds: tuple[type, ...], kind: type) -> bool:
    return isinstance(values, kinds) and all(isinstance(value, kind) for value in values)  # type: ignore[attr-defined]


def _check_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    if value is None or (isinstance(value, str) and value in choices):
        return
    hint = nearest(str(value), choices)
    raise ConfigError(f"NpuBehaviour was given {field}={value!r}.{hint} There are: {', '.join(choices)}, or None.")
