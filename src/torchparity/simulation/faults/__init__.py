"""Planted faults, such as kernels have them: each is one small class."""

from torchparity.simulation.faults.arguments import DroppedBias, WrongEpsilon
from torchparity.simulation.faults.fault import Fault, Outcome
from torchparity.simulation.faults.outputs import NanAt, SaturatedOverflow, ScaledOutput
from torchparity.simulation.faults.tails import UnmaskedTail

__all__ = [
    "DroppedBias",
    "Fault",
    "NanAt",
    "Outcome",
    "SaturatedOverflow",
    "ScaledOutput",
    "UnmaskedTail",
    "WrongEpsilon",
]
