"""PyTorch's own operator database on the simulated NPU, against the CPU: run as a program, it prints one JSON object.

    python -m tests.simulation.operator_database [--samples N] [--every N | NAME ...]

For each entry of the database: "agrees", or why not. Without names every entry, or one in N.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from itertools import islice

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import torchparity

DTYPES = (torch.float32, torch.bfloat16)
UNWRITTEN = ("empty", "new_empty")  # how the entries begin whose content may be anything
OTHERWISE = (torch.int64, torch.complex64)  # for entries that take no such numbers


def results(names: list[str], every: int, samples: int) -> dict[str, str]:
    """Return what became of each entry."""
    chosen = [info for info in op_db if not names or info.formatted_name in names][::every]
    return {info.formatted_name: _result(info, samples) for info in chosen}


def _result(info, samples: int) -> str:
    taken = info.supported_dtypes("cpu")
    tried = [dtype for dtype in DTYPES if dtype in taken] or [dtype for dtype in OTHERWISE if dtype in taken]
    if not tried:
        return "takes no dtype that is tried on the CPU"
    for dtype in tried:
        for number, (on_cpu, on_npu) in enumerate(_samples(info, dtype, samples)):
            problem = _difference(info, dtype, on_cpu, on_npu)
            if problem:
                return f"{str(dtype).removeprefix('torch.')}, sample {number}: {problem}"
    return "agrees"


def _samples(info, dtype, count: int) -> Iterator[tuple]:
    backward = dtype in info.supported_backward_dtypes("cpu") and info.supports_autograd
    torch.manual_seed(0)
    for sample in islice(info.sample_inputs("cpu", dtype, requires_grad=backward), count):
        moved = sample.transform(_moved)
        moved.kwargs |= {"device": "npu"} if "device" in moved.kwargs else {}
        yield sample, moved


def _moved(value):
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().to("npu").requires_grad_(value.requires_grad)


def _difference(info, dtype, on_cpu, on_npu) -> str | None:
    try:
        expected = _computed(info, on_cpu)
    except Exception as error:  # noqa: BLE001 - any operator may refuse a sample
        return f"the CPU raises {type(error).__name__}: {_first_line(error)}"
    try:
        actual = _computed(info, on_npu)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {_first_line(error)}"
    if len(expected) != len(actual):
        return f"{len(actual)} tensors instead of {len(expected)}"
    for place, (mine, other) in enumerate(zip(actual, expected, strict=True)):
        problem = _unlike(mine, other, values=not info.name.startswith(UNWRITTEN))
        if problem:
            return f"tensor {place}: {problem}"
    return None


def _computed(info, sample) -> list:
    torch.manual_seed(1)
    output = info.op(sample.input, *sample.args, **sample.kwargs)
    outputs = tree_leaves(sample.output_process_fn_grad(output))
    wanted = [leaf for leaf in tree_leaves((sample.input, sample.args, sample.kwargs)) if _needs_gradient(leaf)]
    graded = [leaf for leaf in outputs if _needs_gradient(leaf)]
    gradients = []
    if wanted and graded:
        seeds = [torch.ones_like(leaf) for leaf in graded]
        gradients = [*torch.autograd.grad(graded, wanted, seeds, allow_unused=True)]
    return [*tree_leaves(tree_map(_plain, output)), *gradients]


def _plain(value):
    return value.detach() if isinstance(value, torch.Tensor) else value


def _needs_gradient(leaf) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.requires_grad


def _unlike(mine, other, *, values: bool) -> str | None:
    if not isinstance(other, torch.Tensor) or not isinstance(mine, torch.Tensor):
        same = mine == other or type(mine) is type(other) is torch.device or (mine != mine and other != other)
        return None if same else f"{mine} instead of {other}"
    if other.layout is not torch.strided:
        return f"a tensor of layout {other.layout}"
    if mine.device.type != "npu":
        return f"on {mine.device}"
    if (mine.dtype, mine.shape) != (other.dtype, other.shape):
        return f"{mine.dtype} {tuple(mine.shape)} instead of {other.dtype} {tuple(other.shape)}"
    if not values or _bits(mine.cpu()) == _bits(other):
        return None
    return "other values"


def _bits(tensor: torch.Tensor) -> bytes:
    shown = tensor.detach().resolve_conj().resolve_neg().flatten()
    return torch.empty(shown.shape, dtype=shown.dtype).copy_(shown).view(torch.uint8).numpy().tobytes()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:160]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--samples", type=int, default=3, help="inputs of each entry")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torchparity.simulate_npu()
    print(json.dumps(results(asked.names, asked.every, asked.samples)))
