"""msprobe.pytorch, answered by torchparity."""

from torchparity.compat.msprobe_pytorch import PrecisionDebugger, compare, compare_distributed, seed_all

__all__ = ["PrecisionDebugger", "compare", "compare_distributed", "seed_all"]
