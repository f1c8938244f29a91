"""The listener of handler check: compares each selected API's result with that on perturbed inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torchparity.calls import Call
from torchparity.perturb.apis.judged_results import is_judged, returns_number
from torchparity.perturb.deviation import largest_deviation
from torchparity.perturb.float_bits import unit_moved
from torchparity.perturb.perturbations import Perturbation
from torchparity.perturb.perturbing import (
    Held,
    Perturbing,
    check_draws_nothing,
    check_is_no_view,
    has_written,
    lacks_low_precision,
)
from torchparity.perturb.raised_products import shorter_way
from torchparity.perturb.rerunning import gradients_as_called
from torchparity.perturb.selected_calls import SelectedCalls
from torchparity.perturb.subject import (
    CancelledError,
    Subject,
    call_tensors,
    no_low_precision,
    tensors_of,
)
from torchparity.perturb.verdicts import Measured, Stage, Verdicts
from torchparity.text import counted

_MOST_REASONS = 5
_MOST_NAMED = 5
_NO_CALL = "no call was seen; of other threads those are seen that the model given to start() makes"
_NO_TENSOR = "its result has no tensor to compare"


class ForwardCheck(Perturbing):
    """Compares results; nothing of the training changes."""

    def __init__(self, calls: SelectedCalls, verdicts: Verdicts, perturbation: Perturbation) -> None:
        super().__init__(calls, verdicts)
        self._perturbation = perturbation

    def reason_against(self, call: Call, tensors: Sequence[torch.Tensor]) -> str | None:
        """Return why a call is not perturbed: also where it returns a number, or nothing is computed in halves."""
        reason = super().reason_against(call, tensors)
        if reason is None and returns_number(call.op):
            return _NO_TENSOR
        if reason is None and lacks_low_precision(self._perturbation.raised, tensors):
            return no_low_precision(self._perturbation.raised)
        return reason

    def after(self, call: Call, state: Held, output: Any) -> None:
        """Run a call again on perturbed inputs and judge how far its result is from the original."""
        deviations = self.within(call.name, self._deviations, call, state, output)
        if deviations is None:
            self.give_back(call)
            return
        moved = unit_moved(self._perturbation.moved, state.subject)
        add_all(self.verdicts, call, state.subject, deviations, "forward", moved)

    def sentences(self) -> list[str]:
        return check_sentences(self.verdicts, self.calls)

    def _deviations(self, call: Call, held: Held, output: Any) -> list[tuple[int | None, torch.Tensor, Any]]:
        check_draws_nothing(held)
        originals = list(tensors_of(output))
        check_is_no_view(call, originals)
        is_written = not originals and has_written(call, held, output)
        if is_written:
            originals = call_tensors(call)
        judged = [place for place, tensor in enumerate(originals) if is_judged(call.op.name, place, tensor)]
        if not judged:
            raise CancelledError(_NO_TENSOR)
        assert call.function is not None
        with gradients_as_called(call.op):
            tensors, again = self._rerun(call, call.function, held)
            self.verdicts.begin(call.name)
            results = tensors if is_written else list(tensors_of(again))
            if len(results) != len(originals):
                raise CancelledError("it returned another number of results")
            is_several = len(originals) > 1 if is_written else isinstance(output, (list, tuple))
            return [
                (place if is_several else None, originals[place], largest_deviation(originals[place], results[place]))
                for place in judged
            ]

    def _rerun(self, call: Call, function: Callable[..., Any], held: Held) -> tuple[list[torch.Tensor], Any]:
        """Return the perturbed tensors, as the call left them, and what it returned for them."""
        subject, mode = held.subject, self._perturbation
        product = shorter_way(function, subject.args, subject.kwargs) if mode.raised else None
        if product is not None and (again := held.run_again(product, subject.tensors, mode)) is not None:
            return subject.tensors, again
        tensors = mode.perturbed(subject)
        return tensors, held.run_again(function, tensors, mode)


def add_all(
    verdicts: Verdicts,
    call: Call,
    subject: Subject,
    deviations: list[tuple[int | None, torch.Tensor, Any]],
    stage: Stage,
    moved: float,
    name: str = "",
) -> None:
    """Hand the deviations of a call's results to the verdicts."""
    floats = [tensor for tensor in subject.tensors if tensor.is_floating_point()]
    first = (floats or subject.tensors)[0]
    for place, original, deviation in deviations:
        measured = Measured(
            api=call.op.name,
            name=name or call.name,
            stage=stage,
            step=verdicts.step(),
            dtype=first.dtype,
            shape=tuple(first.shape),
            output_dtype=original.dtype,
            moved=moved,
            output_index=place,
        )
        verdicts.add(measured, deviation)


def check_sentences(verdicts: Verdicts, calls: SelectedCalls) -> list[str]:
    """Return what came of a check: how many calls were perturbed, how many deviate, and what was left out."""
    rows = verdicts.table.rows if verdicts.table is not None else 0
    if not verdicts.perturbed and not rows:
        return [f"nothing was checked with {verdicts.mode}", *reasons_for_nothing(verdicts, calls)]
    beyond = f"{counted(rows, 'result')} beyond the thresholds"
    if verdicts.farthest is not None:
        measured, deviation = verdicts.farthest
        beyond += f", the farthest {measured.name} in step {measured.step}, off by {deviation:.3g}"
    return [
        f"perturbed {counted(verdicts.perturbed, 'call')} with {verdicts.mode}",
        beyond,
        *_unequal(verdicts.unequal),
        *([] if verdicts.table is None else verdicts.table.lost_sentences()),
        *verdicts.preheat_sentences(),
        *left_out_sentences(verdicts, calls),
    ]


def _unequal(unequal: Mapping[str, float]) -> list[str]:
    """Return one part of a sentence on APIs that are not deterministic, by less than the thresholds."""
    if not unequal:
        return []
    worst = sorted(unequal, key=unequal.__getitem__, reverse=True)
    named = [f"{api} by {unequal[api]:.3g}" for api in worst[:_MOST_NAMED]]
    others = [f"{len(worst) - _MOST_NAMED} more"] if len(worst) > _MOST_NAMED else []
    return [f"not deterministic, but within the thresholds: {', '.join([*named, *others])}"]


def left_out_sentences(verdicts: Verdicts, calls: SelectedCalls) -> list[str]:
    """Return what was left out and why, and the names that never came up."""
    missing, beyond = calls.unmatched(), calls.beyond_most
    return [
        *_reasons(verdicts.cancelled),
        *([f"{counted(beyond, 'call')} beyond max_calls_per_api {calls.most}"] if beyond else []),
        *([f"never called in a step: {', '.join(missing)}"] if missing else []),
    ]


def reasons_for_nothing(verdicts: Verdicts, calls: SelectedCalls) -> list[str]:
    """Return why no call was perturbed."""
    return left_out_sentences(verdicts, calls) or [_NO_CALL]


def _reasons(cancelled: Counter[str]) -> list[str]:
    """Return one part of a sentence on all that was left out: a reason alone, or each with its number."""
    if not cancelled:
        return []
    common = cancelled.most_common(_MOST_REASONS)
    parts = [f"{reason} ({number})" for reason, number in common] if len(common) > 1 else [common[0][0]]
    others = cancelled.total() - sum(number for _, number in common)
    parts += [f"other reasons ({others})"] if others else []
    return [f"{counted(cancelled.total(), 'call')} left out: {', '.join(parts)}"]
