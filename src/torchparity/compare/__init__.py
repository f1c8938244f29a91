"""Read two runs: align their records, compare what they hold, judge it, and name where they part."""

import sys
from types import ModuleType
from typing import Any

from torchparity.compare._comparison import Comparison, compare_runs
from torchparity.compare._divergence import Divergence
from torchparity.compare._doors import compare
from torchparity.compare._parts import Options

__all__ = ["Comparison", "Divergence", "Options", "compare", "compare_runs"]


class _CallablePackage(ModuleType):
    """`torchparity.compare` is this package once it is imported, and must still be the function users call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return compare(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
