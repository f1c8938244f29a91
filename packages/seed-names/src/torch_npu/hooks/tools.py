"""torch_npu.hooks.tools, answered by torchparity."""

from torchparity.compat.hooks_tools import compare

__all__ = ["compare"]
