"""Precision behaviours: how a device may round where the CPU does not, one small class each."""

from torchparity.simulation.precision.accumulation import Accumulating
from torchparity.simulation.precision.reduction_order import Reordered
from torchparity.simulation.precision.subnormals import FlushedSubnormals

__all__ = ["Accumulating", "FlushedSubnormals", "Reordered"]
