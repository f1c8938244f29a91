"""torchparity: find the operator that makes two PyTorch runs disagree.

The public names load when they are first used: importing torchparity imports neither
torch nor NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torchparity.version import __version__ as __version__

if TYPE_CHECKING:
    from torchparity.communication.entry import check_laws
    from torchparity.comparing import Comparison, compare, compare_distributed
    from torchparity.descriptions import describe
    from torchparity.errors import ParityError
    from torchparity.in_lockstep import LockstepResult, lockstep
    from torchparity.randomness import random_save, seed_all
    from torchparity.recording import Capture, PrecisionDebugger, capture, module_dump, module_dump_end
    from torchparity.records import Record, StackGroup, TensorLeaf, ValueLeaf
    from torchparity.simulation import NpuBehaviour, simulate_npu
    from torchparity.storage import RunPart, RunReader, RunWriter, open_run
    from torchparity.tensors import HostTensor
    from torchparity.tensors.torch_tensors import from_torch, to_torch

__all__ = [
    "Capture",
    "Comparison",
    "HostTensor",
    "LockstepResult",
    "NpuBehaviour",
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
    "check_laws",
    "compare",
    "compare_distributed",
    "describe",
    "from_torch",
    "lockstep",
    "module_dump",
    "module_dump_end",
    "open_run",
    "random_save",
    "seed_all",
    "simulate_npu",
    "to_torch",
]

_HOME = {
    "Capture": "recording",
    "Comparison": "comparing",
    "HostTensor": "tensors",
    "LockstepResult": "in_lockstep",
    "NpuBehaviour": "simulation",
    "ParityError": "errors",
    "PrecisionDebugger": "recording",
    "Record": "records",
    "RunPart": "storage",
    "RunReader": "storage",
    "RunWriter": "storage",
    "StackGroup": "records",
    "TensorLeaf": "records",
    "ValueLeaf": "records",
    "capture": "recording",
    "check_laws": "communication.entry",
    "compare": "comparing",
    "compare_distributed": "comparing",
    "describe": "descriptions",
    "from_torch": "tensors.torch_tensors",
    "lockstep": "in_lockstep",
    "module_dump": "recording",
    "module_dump_end": "recording",
    "open_run": "storage",
    "random_save": "randomness",
    "seed_all": "randomness",
    "simulate_npu": "simulation",
    "to_torch": "tensors.torch_tensors",
}


if not TYPE_CHECKING:  # or type checkers would take every misspelt name for one of these

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'torchparity' has no attribute {name!r}")
        try:
            return getattr(import_module(f"torchparity.{_HOME[name]}"), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            from torchparity.errors import MissingTorchError

            raise MissingTorchError(f"torchparity.{name}") from error


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
