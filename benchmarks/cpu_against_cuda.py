"""Compares models trained on a CUDA device with the same on the CPU: clean pairs, dtypes, TF32 and wrong kernels.

python -m benchmarks.cpu_against_cuda FOLDER [--models llama,cnn] [--task statistics|tensor] [--device npu]

Every model of the fault bed is trained two steps (forward, backward, clipping, optimizer) on the CPU in float32 and on
the device in float32, with TF32, in bfloat16, under autocast, and with a wrong kernel in each of these. There is no
dropout: two devices draw other random numbers. With `--device npu` a simulated NPU stands for the device, which adds in
another order; it cannot run mixtral, nor lstm in bfloat16. Prints a line for each pair and writes
FOLDER/results.jsonl; the runs of a wrong answer stay in FOLDER/MODEL.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

import torchparity
from tests.faultbed.models import SUBJECTS
from tests.faultbed.plant import Change, PlantedCall, wrong_gradient, wrong_output
from tests.faultbed.program import Program, make_program, record
from torchparity.simulation import NpuBehaviour, simulate_npu

_VARIANTS = ("fp32", "tf32", "bf16", "autocast")
_CLEAN_KINDS = {"fp32": ("agree",), "tf32": ("dtype", "agree"), "bf16": ("dtype",), "autocast": ("dtype",)}


class Kernel(NamedTuple):
    """A wrong kernel: the operators it may be planted in, how it is wrong, and what is true of it."""

    operators: tuple[str, ...]
    change: Change
    kinds: tuple[str, ...]
    direction: str = "forward"


def _tail(value: torch.Tensor) -> torch.Tensor:
    """Leave the last eighth as it was in other memory: a tail that is not masked."""
    flat = value.flatten()
    flat[-max(1, flat.numel() // 8) :] = flat[: max(1, flat.numel() // 8)] * 3
    return flat.view_as(value)


def _at_index(value: torch.Tensor) -> torch.Tensor:
    value.view(-1)[value.numel() // 2] = float("nan")
    return value


KERNELS = {
    "tail": Kernel(("linear", "addmm", "matmul", "conv2d"), wrong_output(_tail), ("operator",)),
    "scaled": Kernel(("linear", "addmm", "conv2d"), wrong_output(lambda value: value * 1.2), ("operator",)),
    "norm": Kernel(
        ("layer_norm", "mean", "batch_norm", "group_norm"), wrong_output(lambda value: value + 0.2), ("operator",)
    ),
    "nan": Kernel(("linear", "addmm", "conv2d"), wrong_output(_at_index), ("non-finite",)),
    "gradient": Kernel(
        ("linear", "addmm", "conv2d"), wrong_gradient(lambda value: value * 1.2), ("operator",), "backward"
    ),
}


def _without_dropout(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("dropout", "attention_dropout", "dropout_p", "activation_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


@contextmanager
def _tf32(is_on: bool) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = is_on
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def _program(name: str, device: str, variant: str) -> Program:
    program = make_program(SUBJECTS[name])
    _without_dropout(program.model)
    program.model.to(device)
    program.batches = [{key: value.to(device) for key, value in batch.items()} for batch in program.batches]
    if variant == "bf16":
        program.model.to(torch.bfloat16)
        program.batches = [
            {key: value.bfloat16() if value.is_floating_point() else value for key, value in batch.items()}
            for batch in program.batches
        ]
    if variant == "autocast":
        program.context = lambda: torch.autocast(device, dtype=torch.bfloat16)
    program.around = lambda: _tf32(variant == "tf32")
    return program


def _place(baseline: Path, kernel: Kernel) -> str | None:
    """Return the forward record of the middle call of the first operator that the model has."""
    records = torchparity.open_run(baseline).parts[0].records
    for operator in kernel.operators:
        calls = [name for name in records if name.endswith(".forward") and name.split(".")[-3] == operator]
        if kernel.direction == "backward":
            calls = [name for name in calls if name.removesuffix("forward") + "backward" in records]
        if calls:
            return calls[len(calls) // 2]
    return None


def _pair(name: str, variant: str, kernel: str | None, folder: Path, task: str, device: str) -> dict[str, Any] | None:
    baseline, candidate = folder / name / "cpu", folder / name / f"{variant}-{kernel or 'clean'}"
    if not baseline.exists():
        record(_program(name, "cpu", "fp32"), baseline, task)
    if device == "npu":
        simulate_npu(NpuBehaviour(reduction_order="reversed", accumulate="tf32" if variant == "tf32" else None))
    program = _program(name, device, variant)
    truth: str | None = None
    if kernel is not None:
        truth = _place(baseline, KERNELS[kernel])
        if truth is None:
            return None
        program.below.append(PlantedCall(truth, KERNELS[kernel].change))
        if KERNELS[kernel].direction == "backward":
            truth = truth.removesuffix("forward") + "backward"
    record(program, candidate, task)
    verdict = torchparity.compare(candidate, baseline).verdict
    kinds = _CLEAN_KINDS[variant] if kernel is None else KERNELS[kernel].kinds
    said = verdict.first.record if verdict.first is not None else None
    is_right = verdict.kind.value in kinds and said == truth
    if is_right:
        shutil.rmtree(candidate)
    return {
        "model": name,
        "variant": variant,
        "kernel": kernel,
        "truth": truth,
        "said": said,
        "kind": verdict.kind.value,
        "is_right": is_right,
        "sentence": verdict.sentence,
    }


def main() -> int:
    """Run all pairs; return 1 where an answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default=",".join(SUBJECTS))
    parser.add_argument("--task", default="statistics")
    parser.add_argument("--device", choices=("cuda", "npu"), default="cuda", help="npu: the simulated one")
    options = parser.parse_args()
    if options.device == "npu":
        simulate_npu()
    options.folder.mkdir(parents=True, exist_ok=True)
    run: Callable[..., dict[str, Any] | None] = _pair
    lines = []
    for name in options.models.split(","):
        for variant in _VARIANTS:
            for kernel in (None, *KERNELS):
                line = run(name, variant, kernel, options.folder, options.task, options.device)
                if line is not None:
                    lines.append(line)
                    print("ok   " if line["is_right"] else "WRONG", name, variant, kernel, line["sentence"][:300])
    (options.folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for kernel in (False, True):
        chosen = [line for line in lines if (line["kernel"] is not None) == kernel]
        what = "wrong kernels named" if kernel else "clean pairs right"
        print(f"{what}: {sum(line['is_right'] for line in chosen)} of {len(chosen)}")
    return int(not all(line["is_right"] for line in lines))


if __name__ == "__main__":
    sys.exit(main())
