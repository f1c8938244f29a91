"""The listener that measures how many bits of the selected calls' results are significant."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from torchparity.calls import Call, attempted
from torchparity.perturb.apis.judged_results import is_judged
from torchparity.perturb.apis.unsuitable import NEEDS_DTYPE, needs_dtype
from torchparity.perturb.checking import left_out_sentences, reasons_for_nothing
from torchparity.perturb.findings import SIGNIFICANCE, SharedTable
from torchparity.perturb.float_bits import unit_moved
from torchparity.perturb.memory_layout import copied
from torchparity.perturb.perturbing import Held, Perturbing, check_draws_nothing, check_is_no_view, has_written
from torchparity.perturb.rerunning import gradients_as_called
from torchparity.perturb.selected_calls import SelectedCalls
from torchparity.perturb.significance.estimate import Estimate, Spread, distance
from torchparity.perturb.significance.matrix_algorithms import expected_growth
from torchparity.perturb.significance.noise import Float64, LastBits, raised
from torchparity.perturb.significance.summary import Entry, Summary
from torchparity.perturb.subject import CancelledError, Subject, call_tensors, tensors_of
from torchparity.perturb.verdicts import Verdicts
from torchparity.text import counted

_log = logging.getLogger("torchparity")
_MOST_SAID = 5


class Significance(Perturbing):
    """Runs each call some times with random last bits, in its own precision and in float64."""

    needs_parents = True
    table = SIGNIFICANCE

    def __init__(self, calls: SelectedCalls, verdicts: Verdicts, runs: int, noise: LastBits) -> None:
        super().__init__(calls, verdicts)
        self._runs, self._noise, self._truth = runs, noise, Float64()
        self._rank, self._summary = 0, Summary()
        self._table: SharedTable | None = None
        self._worst: Entry | None = None  # API of all steps

    def open(self, folder: Path, rank: int) -> None:
        self._rank, self._table = rank, SharedTable(folder, SIGNIFICANCE)

    def after(self, call: Call, state: Held, output: Any) -> None:
        """Run a call again with noise and add what that says to the step's summary."""
        with gradients_as_called(call.op):
            estimates = self.within(call.name, self._estimates, call, state, output)
        if estimates is None:
            self.give_back(call)
        for estimate in estimates or []:
            self._summary.add(call.op.name, call.name, call.parents, estimate)

    def end_step(self, step: int) -> None:
        """Write and log the APIs and modules of a step, the least significant first."""
        entries, self._summary = self._summary.ranked(), Summary()
        for entry in entries:
            if self._table is not None:
                self._table.add(entry.row(self._rank, step), step)
        for entry in [entry for entry in entries if entry.kind == "api"][:_MOST_SAID]:
            _log.info("torchparity: significance in step %d: %s", step, entry.sentence())
            if self._worst is None or entry.is_worse_than(self._worst):
                self._worst = entry

    def take_back(self, step: int | None = None) -> None:
        """Remove what was written of all steps; one that is not over has only a summary."""
        super().take_back(step)
        self._summary = Summary()
        if step is None and self._table is not None:
            self._table.take_back()
            self._worst = None

    def sentences(self) -> list[str]:
        if not self.verdicts.perturbed:
            return [f"nothing was checked with {self.verdicts.mode}", *reasons_for_nothing(self.verdicts, self.calls)]
        runs = f"ran {counted(self.verdicts.perturbed, 'call')} {self._runs} times with random last bits"
        worst = [f"worst: {self._worst.sentence()}"] if self._worst is not None else []
        lost = [] if self._table is None else self._table.lost_sentences()
        return [runs, *worst, *lost, *left_out_sentences(self.verdicts, self.calls)]

    def _estimates(self, call: Call, held: Held, output: Any) -> list[Estimate]:
        check_draws_nothing(held)
        originals = list(tensors_of(output))
        check_is_no_view(call, originals)
        is_written = not originals and has_written(call, held, output)
        originals = call_tensors(call) if is_written else originals
        judged = [place for place, tensor in enumerate(originals) if _has_precision(call.op.name, place, tensor)]
        if not judged:
            is_empty = any(tensor.is_floating_point() and not tensor.numel() for tensor in originals)
            raise CancelledError("its result is empty" if is_empty else "its result has no floating-point tensor")
        if needs_dtype(call.op.name):
            raise CancelledError(NEEDS_DTYPE)
        self._noise.perturbed(held.subject)  # raises where nothing can be moved
        again = _Again(call, held, originals, is_written=is_written)
        truths = again.run(self._truth, held.subject.tensors)
        unit = unit_moved(self._noise.moved, held.subject)
        repeated = again.results(self._noise, [copied(tensor) for tensor in held.subject.tensors])
        growth = expected_growth(call.op.name, held.subject.tensors)
        spreads = [
            Spread(originals[place], None if truths is None else truths[place], unit, repeated[place], growth)
            for place in judged
        ]
        for _ in range(self._runs):
            tensors = self._noise.perturbed(held.subject)
            moved = _moved(held.subject, tensors)
            truths = again.run(self._truth, tensors) if truths is not None else None
            results = again.results(self._noise, tensors)
            for place, spread in zip(judged, spreads, strict=True):
                spread.add(moved, results[place], None if truths is None else truths[place])
        self.verdicts.begin(call.name)
        return [spread.estimate() for spread in spreads]


class _Again:
    """Runs one call again and again."""

    def __init__(self, call: Call, held: Held, originals: Sequence[torch.Tensor], *, is_written: bool) -> None:
        self._call, self._held, self._is_written = call, held, is_written
        self._shapes = [original.shape for original in originals]

    def run(self, truth: Float64, tensors: list[torch.Tensor]) -> list[torch.Tensor] | None:
        """Return the results in float64; None where that cannot be had."""
        results = attempted(lambda: self.results(truth, [raised(tensor) for tensor in tensors]))
        return None if isinstance(results, Exception) else results

    def results(self, kind: Float64 | LastBits, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the results for some tensors, which the call may overwrite."""
        assert self._call.function is not None
        again = self._held.run_again(self._call.function, tensors, kind)
        results = tensors if self._is_written else list(tensors_of(again))
        if [result.shape for result in results] != self._shapes:
            raise CancelledError("for other inputs its results have other shapes")
        return results


def _has_precision(api: str, place: int, tensor: torch.Tensor) -> bool:
    return _has_fractions(tensor) and is_judged(api, place, tensor)


def _has_fractions(tensor: torch.Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and tensor.numel() > 0


def _moved(subject: Subject, tensors: list[torch.Tensor]) -> float:
    """Return how far the inputs moved, relative to their size."""
    pairs = zip(subject.tensors, tensors, strict=True)
    far = [distance(new, old) for old, new in pairs if _has_fractions(old)]
    finite = [each for each in far if math.isfinite(each) and each]
    return math.sqrt(sum(each**2 for each in finite) / len(finite)) if finite else 0.0
