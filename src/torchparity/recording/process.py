"""The process that records: its rank, whether it was forked, and the end of the program."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import Protocol

import torch

from torchparity.config import LARGEST_INDEX


def rank_of_process() -> int:
    """Return this process's rank; before its group is made what torchrun says it will be."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    announced = os.environ.get("RANK", "")
    rank = int(announced) if announced.isdecimal() and "WORLD_SIZE" in os.environ else 0
    return rank if rank <= LARGEST_INDEX else 0


def is_one_of_many() -> bool:
    """Tell whether other ranks belong to this training."""
    return "WORLD_SIZE" in os.environ or bool(rank_of_process())


class Closable(Protocol):
    """Something to close when the program ends; `error` ended it."""

    def close(self, error: BaseException | None = None) -> None: ...


def close_at_exit(session: Closable) -> None:
    """Close a forgotten session when the program ends.

    Not with `atexit`: that comes after threads were joined, the writer's among them.
    """
    reference = weakref.ref(session)

    def close() -> None:
        forgotten = reference()
        if forgotten is not None:
            forgotten.close(None if hasattr(sys, "ps1") else getattr(sys, "last_value", None))

    threading._register_atexit(close)  # type: ignore[attr-defined]
