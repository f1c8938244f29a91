"""A simulated NPU: a device of torch in host memory, with the CPU's kernels, chosen roundings and planted faults."""

from torchparity.simulation.activation import simulate_npu
from torchparity.simulation.backend import SimulatedBackend
from torchparity.simulation.faults import (
    DroppedBias,
    Fault,
    NanAt,
    Outcome,
    SaturatedOverflow,
    ScaledOutput,
    UnmaskedTail,
    WrongEpsilon,
)
from torchparity.simulation.options import NpuBehaviour

__all__ = [
    "DroppedBias",
    "Fault",
    "NanAt",
    "NpuBehaviour",
    "Outcome",
    "SaturatedOverflow",
    "ScaledOutput",
    "SimulatedBackend",
    "UnmaskedTail",
    "WrongEpsilon",
    "simulate_npu",
]
