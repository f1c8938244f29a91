"""The deviation of what calls of one run alone copied, cast, or added or multiplied numbers to: their gain is known."""

from __future__ import annotations

import math
from typing import NamedTuple

from torchparity.comparing.judging.evidence.distances import largest_distance, results_like
from torchparity.comparing.judging.evidence.dtypes import coarser_unit
from torchparity.comparing.judging.evidence.judged_record import is_mask
from torchparity.comparing.judging.evidence.operators import operator_of
from torchparity.comparing.judging.evidence.parameter_order import parameter_of
from torchparity.comparing.judging.figures import GAIN_OF_COPIES, GAIN_OF_SUMS, ROUNDED_NUMBER
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.measuring.deviation import finite_norm
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.rounding import tolerance, unit_of
from torchparity.comparing.precision.families import stem_of
from torchparity.comparing.precision.figures import ESTIMATE
from torchparity.records import Leaf, Origin, Record, TensorLeaf, ValueLeaf
from torchparity.storage import RunPart

# What they return is what they received in another form, place or dtype: no element is dropped or taken twice.
_COPYING_NAMES = """
    view reshape viewas reshapeas flatten unflatten squeeze unsqueeze transpose t permute swapaxes swapdims movedim
    moveaxis contiguous clone detach alias flip roll neg positive to type typeas float double half bfloat16 cpu cuda
"""
_COPYING = frozenset(_COPYING_NAMES.split())
_SHIFTING = frozenset(("add", "sub", "subtract"))
_SCALING = frozenset(("mul", "multiply", "div", "divide", "truedivide"))
_NAMING = ("parameter", "buffer")  # these say whose memory it is, beside who wrote it
_LONGEST_WAY = 100


class _Moved(NamedTuple):
    """The distance of two tensors that was passed on, and that of the roundings on the way."""

    passed: float
    rounded: float


def deviation_behind(context: PartContext, entry: ItemComparison, alone: str, home: PartContext) -> float | None:
    """Return how far an item may be off that a call of one run alone made; None where the gain is not known.

    `home` is the step that made the call. The other run must have made it by a record that the call leads back to, or
    by such calls as well.
    """
    norm = finite_norm(entry.baseline) if entry.baseline is not None else None
    if norm is None or is_mask(entry):
        return None
    is_candidates = home.candidates_alone(alone) is not None
    mine, other = _WayBack(is_candidates=is_candidates), _WayBack(is_candidates=not is_candidates)
    side = entry.baseline if is_candidates else entry.candidate
    moved = mine.of_call(home, alone)
    moved_there = other.of_tensor(context, side.leaf if side is not None else None)
    if moved is None or moved_there is None or not other.ancestors <= mine.ancestors:
        return None
    estimate = 1.0 if entry.metrics is not None else ESTIMATE
    rounded = estimate * (moved.rounded + moved_there.rounded) / norm + coarser_unit(entry.pair)
    return min(tolerance(entry.pair), ROUNDED_NUMBER) + rounded + GAIN_OF_COPIES * moved.passed / norm


class _WayBack:
    """The calls of one run alone that lead from a tensor back to records of both runs, its `ancestors`."""

    def __init__(self, *, is_candidates: bool) -> None:
        self._is_candidates = is_candidates
        self._seen: set[tuple[int, str]] = set()
        self.ancestors: set[tuple[int, str]] = set()  # step and name

    def of_call(self, context: PartContext, name: str) -> _Moved | None:
        """Return what a call without a partner makes of what it received; None where its gain is not known."""
        record = self._part(context).records.get(name)
        leaves = _only_tensors(record) if record is not None else None
        place = (context.step, name)
        if leaves is None or place in self._seen or len(self._seen) >= _LONGEST_WAY:
            return None  # a run that somebody wrote by hand may go round in circles
        self._seen.add(place)
        received, returned = leaves
        moved = self.of_tensor(context, received)
        before, after = _norm(received), _norm(returned)
        if moved is None or before is None or after is None:
            return None
        stem = stem_of(operator_of(name))
        gain = after / before if stem in _SCALING else 1.0
        is_exact = stem in _COPYING and unit_of(returned.dtype) <= unit_of(received.dtype)
        own = 0.0 if is_exact else unit_of(returned.dtype) * after
        return _Moved(gain * moved.passed, gain * moved.rounded + own)

    def of_tensor(self, context: PartContext, leaf: Leaf) -> _Moved | None:
        """Return the distance of a tensor that paired records made, or calls of known gain from what those made."""
        if not isinstance(leaf, TensorLeaf):
            return None
        origins = [origin for origin in self._part(context).origins_of(leaf) if origin.kind not in _NAMING]
        moved = [self._of_origin(context, origin, leaf) for origin in origins]
        known = [part for part in moved if part is not None]
        if not known or len(known) < len(moved):
            return None
        return _Moved(sum(part.passed for part in known), sum(part.rounded for part in known))

    def _of_origin(self, context: PartContext, origin: Origin, leaf: TensorLeaf) -> _Moved | None:
        at = context.context_of(origin)
        if at is None:
            return None
        if at.is_alone(origin.name, is_candidates=self._is_candidates):
            return self.of_call(at, origin.name)
        maker = at.paired(origin.name, is_candidates=self._is_candidates)
        if maker is None or maker.passes_on:
            return None
        self.ancestors.add((at.step, maker.name))
        distance = largest_distance(results_like(maker, leaf.shape))
        return None if distance is None else _Moved(distance, 0.0)

    def _part(self, context: PartContext) -> RunPart:
        return context.part.candidate if self._is_candidates else context.part.baseline


def _only_tensors(record: Record) -> tuple[TensorLeaf, TensorLeaf] | None:
    """Return the one tensor that a call received and the one that it returned; None where there are others."""
    stem = stem_of(operator_of(record.name))
    if record.direction != "forward" or stem not in _COPYING | _SHIFTING | _SCALING:
        return None
    inputs = [item.leaf for item in record.items() if item.role == "input"]
    received = [leaf for leaf in inputs if isinstance(leaf, TensorLeaf)]
    returned = [item.leaf for item in record.items() if item.role == "output"]
    if len(received) != 1 or len(returned) != 1 or not isinstance(returned[0], TensorLeaf):
        return None
    has_words = any(isinstance(leaf, ValueLeaf) and isinstance(leaf.value, str) for leaf in inputs)
    if stem in _SCALING and (has_words or inputs[0] is not received[0]):  # a rounding mode, or a number over a tensor
        return None
    is_float = unit_of(received[0].dtype) and unit_of(returned[0].dtype)
    return (received[0], returned[0]) if is_float and received[0].numel == returned[0].numel else None


def _norm(leaf: TensorLeaf) -> float | None:
    norm = leaf.statistics.norm if leaf.statistics is not None else None
    is_size = isinstance(norm, (int, float)) and math.isfinite(norm) and norm > 0
    return float(norm) if is_size and norm is not None else None


def is_of_unrecorded_training(context: PartContext, entry: ItemComparison, parameter: str) -> bool:
    """Tell whether a parameter of a later step is no further off than training that nobody recorded makes it.

    Where modules alone are recorded, no call of an optimizer tells what became of the gradient in the step before, and
    none tells of an average of weights.
    """
    earlier = context.earlier.values()
    if entry.deviation is None or not any(step.flow.users_of_parameter(parameter) for step in earlier):
        return False
    gradients = [
        gradient.deviation
        for step in earlier
        for record in step.records
        if record.direction == "parameters_grad"
        for gradient in record.items
        if parameter_of(record, gradient) == parameter
    ]
    known = [deviation for deviation in gradients if deviation is not None]
    if len(known) < len(gradients):
        return False
    return entry.deviation <= tolerance(entry.pair) + GAIN_OF_SUMS * max(known, default=0.0)
