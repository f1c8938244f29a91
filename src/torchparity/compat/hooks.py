"""torch_npu.hooks: hook a model once, then say where each of its passes is recorded.

    register_acc_cmp_hook(model)
    set_dump_path("./cpu.pkl")     # what runs from here on is recorded there
    set_dump_path("./npu.pkl")     # and from here on there

The functions are the interface, as torch_npu has it; so this file keeps an object. A path is the folder of a run,
whatever its name ends with.
"""

from __future__ import annotations

from pathlib import Path

from torch import nn

from torchparity.compat.dumping import Dumping, folder_of
from torchparity.config import CaptureConfig
from torchparity.randomness import seed_all

__all__ = ["register_acc_cmp_hook", "seed_all", "set_dump_path"]

_dumping = Dumping()


def register_acc_cmp_hook(model: nn.Module) -> None:
    """Record the calls of every layer of a model, forward and backward, once `set_dump_path` has said where to."""
    _dumping.hook(model)


def set_dump_path(fpath: str | Path) -> None:
    """Record what the hooked models do from here on into a run at `fpath`; one that is there is replaced."""
    config = CaptureConfig(task="tensor", level="mix", dump_path=str(folder_of(fpath)), overwrite=True)
    _dumping.open(config)
    _dumping.start()


def finish() -> None:
    """Make the run that is recorded whole."""
    _dumping.close()
