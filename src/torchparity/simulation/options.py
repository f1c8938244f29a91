"""Options of the simulated NPU: how it rounds, what it lacks, and which faults are planted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torchparity.simulation.faults.fault import Fault

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
