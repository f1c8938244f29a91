"""Watch a running model and record what every API and module received and returned."""

import sys
from types import ModuleType
from typing import Any

from torchparity.capture._debugger import Capture, PrecisionDebugger, capture
from torchparity.capture._randomness import random_save
from torchparity.capture._seeding import seed_all

__all__ = ["Capture", "PrecisionDebugger", "capture", "module_dump", "module_dump_end", "random_save", "seed_all"]

module_dump = PrecisionDebugger.module_dump
module_dump_end = PrecisionDebugger.module_dump_end


class _CallablePackage(ModuleType):
    """`torchparity.capture` is this package once it is imported, and must still be the function users call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return capture(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
