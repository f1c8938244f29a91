"""The function `lockstep`: two models, the same inputs, one verdict, and nothing on disk."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

from torch import nn

from torchparity.comparing import Alignment, Comparison, Options
from torchparity.comparing.options import refuse_unknown_patterns
from torchparity.comparing.part import PartComparison
from torchparity.errors import ConfigError, with_nearest_option
from torchparity.in_lockstep.inputs import Inputs, device_of
from torchparity.in_lockstep.modules import module_partners
from torchparity.in_lockstep.optimizers import Optimizers, check_optimizers
from torchparity.in_lockstep.options import Level, Loss, Plan, Task, check_choice
from torchparity.in_lockstep.random_numbers import RandomState, own_generators
from torchparity.in_lockstep.result import LockstepResult
from torchparity.in_lockstep.runner import ModelRunner


@with_nearest_option
def lockstep(
    model_a: nn.Module,
    model_b: nn.Module,
    inputs: Inputs,
    *,
    backward: bool = False,
    loss: Loss | None = None,
    steps: int = 1,
    optimizers: Optimizers | None = None,
    level: Level = "mix",
    task: Task = "statistics",
    cast_inputs: bool = False,
    align: Alignment = "order",
    ignore: Sequence[str] = (),
    tolerance: float | None = None,
) -> LockstepResult:
    """Run two models on the same inputs and compare every call of one with its partner; nothing is written.

    `model_a` is the candidate, `model_b` the baseline, as in `compare(candidate, baseline)`. `inputs` is a tensor, a
    tuple or list of arguments, a dict of keyword arguments, or a function that makes one of these for a device; each
    model gets copies on its own device, with `cast_inputs` also in its own dtype. Both draw the same random numbers.

    `backward` compares gradients too, of `loss(output)` or, without `loss`, from fixed gradients of every output.
    `task="tensor"` compares values in memory, `"statistics"` holds no tensors. `steps` with `optimizers` trains both
    models and ends at the first step that differs. `level`, `align`, `ignore` and `tolerance` are those of `capture`
    and `compare`. Without optimizers both models, the inputs and all random generators are left as they were.
    """
    plan = Plan(backward, loss, steps, optimizers, level, task, cast_inputs)
    patterns = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    check_choice("align", align, get_args(Alignment))
    _check_models(model_a, model_b)
    if optimizers is not None:
        check_optimizers(optimizers, model_a, model_b)
    partners = module_partners(model_a, model_b)
    options = Options(by=align, module_partners=partners, ignore=patterns, tolerance=tolerance)
    before = RandomState({**own_generators(model_a), **own_generators(model_b)}.values())
    try:
        return _run(ModelRunner(model_a, plan, 0), ModelRunner(model_b, plan, 1), inputs, options)
    finally:
        before.restore()


def _run(candidate: ModelRunner, baseline: ModelRunner, inputs: Inputs, options: Options) -> LockstepResult:
    parts: list[PartComparison] = []
    notes: list[str] = []
    shared = _shared_generators(candidate.model, baseline.model)
    with ExitStack() as stack:
        for runner in (candidate, baseline):
            stack.enter_context(runner)
        for _ in range(candidate.steps):
            start = RandomState(shared)
            candidate.run_step(inputs)
            after = RandomState(shared)
            start.restore_for(device_of(baseline.model), like=device_of(candidate.model))
            baseline.run_step(inputs)
            after.restore()
            parts.append(_compared(candidate, baseline, options, notes))
            result = _result(candidate, baseline, parts, notes, options)
            if not result.agrees:
                break
    return result


def _shared_generators(model_a: nn.Module, model_b: nn.Module) -> list[object]:
    """Return the generators that both models draw from, in one process each after the other."""
    others = own_generators(model_b)
    return [generator for identity, generator in own_generators(model_a).items() if identity in others]


def _compared(candidate: ModelRunner, baseline: ModelRunner, options: Options, notes: list[str]) -> PartComparison:
    """Compare the step that both just ran; their values are let go of."""
    mine, other = candidate.take(), baseline.take()
    refuse_unknown_patterns(options.patterns, ((name, mine.construct) for name in mine.records))
    part = PartComparison(mine, other, options)
    part.measure()
    notes += part.notes
    for side, recorded in (("candidate", mine), ("baseline", other)):
        notes += [f"{side}: {sentence}" for sentence in recorded.missing]
        recorded.release_values()
    return part


def _result(
    candidate: ModelRunner,
    baseline: ModelRunner,
    parts: Sequence[PartComparison],
    notes: Sequence[str],
    options: Options,
) -> LockstepResult:
    names = Path("model_a"), Path("model_b")
    comparison = Comparison(*names, parts, list(dict.fromkeys(notes)), options=options)
    return LockstepResult(comparison, candidate.output, baseline.output)


def _check_models(model_a: nn.Module, model_b: nn.Module) -> None:
    for name, model in (("model_a", model_a), ("model_b", model_b)):
        if not isinstance(model, nn.Module):
            raise ConfigError(f"lockstep was given a {type(model).__name__} as {name}; it takes two modules.")
