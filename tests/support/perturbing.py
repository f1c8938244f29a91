"""What tests of task free_benchmark share: a block that is perturbed, its rows, and wrong kernels."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import torch

from tests.support.bits import same_bits
from torchparity import PrecisionDebugger

MODES = ("improve_precision", "bit_noise", "add_noise", "change_value", "no_change", "to_cpu")


def mode_fields(mode: str) -> dict[str, Any]:
    """Return the fields for a perturbation."""
    return {"pert_mode": mode, "fuzz_device": "cpu" if mode == "to_cpu" else "device"}


@contextmanager
def perturbing(folder: Path, **fields: Any) -> Iterator[type[PrecisionDebugger]]:
    """Perturb one step, which is the block."""
    debugger = PrecisionDebugger(task="free_benchmark", dump_path=folder, **fields)
    debugger.start()
    yield PrecisionDebugger
    debugger.stop()
    debugger.step()
    PrecisionDebugger.close()


def rows_in(folder: Path, file: str = "free_benchmark.csv") -> list[dict[str, str]]:
    """Return the rows of a csv file in the folder of a run."""
    with (folder / file).open(newline="", encoding="utf-8") as table:
        return list(csv.DictReader(table))


def same(left: object, right: object) -> bool:
    """Tell whether two nested values are the same, tensors bit by bit."""
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and same_bits(left, right)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


@contextmanager
def wrong_kernel(operator: str, kernel: Callable[..., Any], key: str = "CPU") -> Iterator[None]:
    """Put another kernel in the place of one of torch's."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it takes the place of another
        override = {"allow_override": True} if "allow_override" in signature(library.impl).parameters else {}
        library.impl(operator, kernel, key, **override)
    try:
        yield
    finally:
        library._destroy()


def product_in_bfloat16(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Multiply matrices; those of bfloat16 with a sum in bfloat16."""
    if left.dtype is not torch.bfloat16:
        return (left.unsqueeze(-1) * right).sum(1)
    total = torch.zeros(left.shape[0], right.shape[1], dtype=torch.bfloat16, device=left.device)
    for place in range(left.shape[1]):
        total = total + left[:, place : place + 1] * right[place]
    return total
