"""torchparity: find the operator that makes two PyTorch runs disagree.

The public names load when they are first used: importing torchparity imports neither
torch nor NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchparity.capture import (
        PrecisionDebugger,
        capture,
        module_dump,
        module_dump_end,
        random_save,
        seed_all,
    )
    from torchparity.errors import ParityError
    from torchparity.records import Record, StackGroup, TensorLeaf, ValueLeaf, describe
    from torchparity.storage import RunPart, RunReader, RunWriter, open_run
    from torchparity.storage._torch import from_torch, to_torch
    from torchparity.tensors import HostTensor

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "HostTensor",
    "ParityError",
    "PrecisionDebugger",
    "Record",
    "RunPart",
    "RunReader",
    "RunWriter",
    "StackGroup",
    "TensorLeaf",
    "ValueLeaf",
    "capture",
    "compare",
    "describe",
    "from_torch",
    "module_dump",
    "module_dump_end",
    "open_run",
    "random_save",
    "seed_all",
    "to_torch",
]

_HOME = {
    "Comparison": "compare",
    "HostTensor": "tensors",
    "ParityError": "errors",
    "PrecisionDebugger": "capture",
    "Record": "records",
    "RunPart": "storage",
    "RunReader": "storage",
    "RunWriter": "storage",
    "StackGroup": "records",
    "TensorLeaf": "records",
    "ValueLeaf": "records",
    "capture": "capture",
    "compare": "compare",
    "describe": "records",
    "from_torch": "storage._torch",
    "module_dump": "capture",
    "module_dump_end": "capture",
    "open_run": "storage",
    "random_save": "capture",
    "seed_all": "capture",
    "to_torch": "storage._torch",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'torchparity' has no attribute {name!r}")
    return getattr(import_module(f"torchparity.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
