"""From the settings of task free_benchmark to the listener that they ask for."""

from __future__ import annotations

from collections.abc import Callable

from torchparity.config import FreeBenchmarkTask
from torchparity.perturb.backward_checking import BackwardCheck
from torchparity.perturb.checking import ForwardCheck
from torchparity.perturb.fixing import Fix
from torchparity.perturb.perturbations import perturbation
from torchparity.perturb.perturbations.improve_precision import WITH_FLOAT32, ImprovePrecision
from torchparity.perturb.perturbing import Perturbing
from torchparity.perturb.selected_calls import SelectedCalls
from torchparity.perturb.significance.listener import Significance
from torchparity.perturb.significance.noise import LastBits
from torchparity.perturb.thresholds import FixedThresholds, LearnedThresholds, Thresholds
from torchparity.perturb.verdicts import Verdicts


def perturbing_for(block: FreeBenchmarkTask, step: Callable[[], int]) -> Perturbing:
    """Return the listener for a task; `step` says the number of the step in hand."""
    thresholds: Thresholds = FixedThresholds()
    if block.if_preheat:
        thresholds = LearnedThresholds(block.preheat_step, block.max_sample)
    calls = SelectedCalls(block.scope, block.list, block.max_calls_per_api, step)
    if block.significance:
        noise = LastBits()
        return Significance(calls, Verdicts(noise.name, thresholds, step), block.significance, noise)
    mode = ImprovePrecision(WITH_FLOAT32) if block.raise_float32 else perturbation(block.pert_mode)
    kind = Fix if block.handler_type == "fix" else BackwardCheck if block.fuzz_stage == "backward" else ForwardCheck
    return kind(calls, Verdicts(mode.name, thresholds, step), mode)
