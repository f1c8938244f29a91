"""ptdbg_ascend, answered by torchparity."""

from torchparity.compat.ptdbg_ascend import *  # noqa: F403 - its names are the interface
from torchparity.compat.ptdbg_ascend import __all__ as __all__
