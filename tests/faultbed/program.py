"""A training that is recorded: a model, its data, its optimizer, and where a fault may change it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import torchparity
from tests.faultbed.plant import ExactKernels, PlantedCall, sink
from torchparity.calls.guard.mode_stack import take_off

STEPS = 2
Task = Literal["tensor", "statistics"]
Batch = dict[str, torch.Tensor]
OPTIMIZERS: Mapping[str, tuple[Any, dict[str, Any]]] = {
    "adamw": (torch.optim.AdamW, {"lr": 1e-2, "betas": (0.9, 0.99), "eps": 1e-3, "weight_decay": 0.1}),
    "foreach": (torch.optim.AdamW, {"lr": 1e-2, "betas": (0.9, 0.99), "eps": 1e-3, "weight_decay": 0.1}),
    "fused": (torch.optim.AdamW, {"lr": 1e-2, "betas": (0.9, 0.99), "eps": 1e-3, "weight_decay": 0.1}),
    "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.05}),
}


def loss_of_output(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the loss that a model of transformers computes itself."""
    loss: torch.Tensor = model(**batch).loss
    return loss


def loss_of_labels(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the loss of a model that returns one row of logits for each label."""
    return nn.functional.cross_entropy(model(batch["x"]), batch["labels"])


@dataclass(frozen=True)
class Subject:
    """A model of the bed, the data of a step, and its optimizer."""

    name: str
    build: Callable[[], nn.Module]
    batch: Callable[[], Batch]
    optimizer: str = "adamw"
    loss: Callable[[nn.Module, Batch], torch.Tensor] = loss_of_output


@dataclass
class Program:
    """One training of a subject, before it runs; a fault changes its fields or adds modes."""

    subject: Subject
    model: nn.Module
    batches: list[Batch]
    settings: dict[str, Any]
    max_norm: float = 0.5
    seed: int = 7
    above: list[PlantedCall] = field(default_factory=list)
    below: list[PlantedCall | ExactKernels] = field(default_factory=list)
    micro_batches: int = 1
    context: Callable[[], AbstractContextManager[Any]] = nullcontext  # of each forward
    around: Callable[[], AbstractContextManager[Any]] = nullcontext  # of the whole training

    def make_optimizer(self) -> torch.optim.Optimizer:
        kind = OPTIMIZERS[self.subject.optimizer][0]
        optimizer: torch.optim.Optimizer = kind(self.model.parameters(), **self.settings)
        return optimizer


def make_program(subject: Subject) -> Program:
    """Return the subject's training as it is without a fault."""
    torch.manual_seed(0)
    model = subject.build().train()
    torch.manual_seed(1)
    batches = [subject.batch() for _ in range(STEPS)]
    settings = dict(OPTIMIZERS[subject.optimizer][1])
    settings |= {"foreach": subject.optimizer == "foreach"}
    if subject.optimizer == "fused":
        settings |= {"foreach": None, "fused": True}
    return Program(subject, model, batches, settings)


def record(program: Program, path: Path, task: Task) -> None:
    """Train two steps and record them: forward, backward, clipping, optimizer."""
    optimizer = program.make_optimizer()
    torch.manual_seed(program.seed)
    recording = torchparity.capture(path, model=program.model, task=task, level="mix", overwrite=True)
    try:
        with redirect_stdout(StringIO()), program.around(), recording as recorder, ExitStack() as modes:
            for above in program.above:
                modes.enter_context(above)
            for step, batch in enumerate(program.batches):
                _begin_step(program, step)
                _train(program, optimizer, batch)
                recorder.step()
    finally:
        for mode in program.below:
            take_off(mode)


def _begin_step(program: Program, step: int) -> None:
    for mode in [*program.above, *program.below]:
        mode.begin_step(step)
    below: list[TorchFunctionMode] = list(program.below)
    for lower in below:
        sink(lower)


def _train(program: Program, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    optimizer.zero_grad()
    count = program.micro_batches
    parts = [{name: value.chunk(count)[index] for name, value in batch.items()} for index in range(count)]
    for part in parts:
        with program.context():
            loss = program.subject.loss(program.model, part)
        torch.autograd.backward(loss / count if count > 1 else loss)
    nn.utils.clip_grad_norm_(program.model.parameters(), program.max_norm)
    optimizer.step()
