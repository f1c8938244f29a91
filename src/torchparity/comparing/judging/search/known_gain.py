"""The deviation of what calls of one run alone copied, cast, or added or multiplied numbers to: their gain is known."""

from __future__ import annotations

import math
from typing import NamedTuple

from torchparity.comparing.judging.evidence.distances import largest_distance, results_like
from torchparity.comparing.judging.evidence.dtypes import coarser_unit
from torchparity.comparing.judging.evidence.judged_record import is_mask
from torchparity.comparing.judging.evidence.operators import operator_of
from torchparity.comparing.judging.figures import GAIN_OF_COPIES, ROUNDED_NUMBER
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.measuring.deviation import finite_norm
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.rounding import tolerance, unit_of
from torchparity.comparing.precision.families import stem_of
from torchparity.comparing.precision.figures import ESTIMATE
from torchparity.records import Origin, Record, TensorLeaf, ValueLeaf

# What they return is what they received in another form, place or dtype: no element is dropped or taken twice.
_COPYING_NAMES = """
    view reshape viewas reshapeas flatten unflatten squeeze unsqueeze transpose t permute swapaxes swapdims movedim
    moveaxis contiguous clone detach alias flip roll neg positive to type typeas float double half bfloat16 cpu cuda
"""
_COPYING = frozenset(_COPYING_NAMES.split())
_SHIFTING = frozenset(("add", "sub", "subtract"))
_SCALING = frozenset(("mul", "multiply", "div", "divide", "truedivide"))


class _Moved(NamedTuple):
    """The distance of two tensors that was passed on, and that of the roundings on the way."""

    passed: float
    rounded: float


_Ancestry = tuple[_Moved, frozenset[tuple[int, str]]]  # with the step and name of the paired records that it leads to


def deviation_behind(context: PartContext, entry: ItemComparison, alone: str, home: PartContext) -> float | None:
    """Return how far an item may be off that a call of one run alone made; None where the gain is not known.

    `home` is the step that made the call. The other run must have made it by a record that the call leads back to, or
    by such calls as well.
    """
    norm = finite_norm(entry.baseline) if entry.baseline is not None else None
    if norm is None or is_mask(entry):
        return None
    is_candidates = home.candidates_alone(alone) is not None
    mine = _behind_call(home, alone, is_candidates=is_candidates)
    if mine is None:
        return None
    side = entry.baseline if is_candidates else entry.candidate
    other = _behind_other_side(context, side.leaf if side is not None else None, is_candidates=not is_candidates)
    if other is None or not other[1] <= mine[1]:
        return None
    estimate = 1.0 if entry.metrics is not None else ESTIMATE
    rounded = estimate * (mine[0].rounded + other[0].rounded) / norm + coarser_unit(entry.pair)
    return min(tolerance(entry.pair), ROUNDED_NUMBER) + rounded + GAIN_OF_COPIES * mine[0].passed / norm


def _behind_other_side(context: PartContext, leaf: object, *, is_candidates: bool) -> _Ancestry | None:
    if not isinstance(leaf, TensorLeaf):
        return None
    return _behind_origins(context, leaf, is_candidates=is_candidates)


def _behind_call(context: PartContext, name: str, *, is_candidates: bool) -> _Ancestry | None:
    """Return what a call without a partner makes of what it received; None where its gain is not known."""
    part = context.part.candidate if is_candidates else context.part.baseline
    record = part.records.get(name)
    leaves = _only_tensors(record) if record is not None else None
    if leaves is None:
        return None
    received, returned = leaves
    norms = _norm(received), _norm(returned)
    ancestry = _behind_origins(context, received, is_candidates=is_candidates, but=name)
    if ancestry is None or norms[0] is None or norms[1] is None:
        return None
    stem = stem_of(operator_of(name))
    gain = norms[1] / norms[0] if stem in _SCALING else 1.0
    is_exact = stem in _COPYING and unit_of(returned.dtype) <= unit_of(received.dtype)
    own = 0.0 if is_exact else unit_of(returned.dtype) * norms[1]
    moved, ancestors = ancestry
    return _Moved(gain * moved.passed, gain * moved.rounded + own), ancestors


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


def _behind_origins(context: PartContext, leaf: TensorLeaf, *, is_candidates: bool, but: str = "") -> _Ancestry | None:
    """Return the distance of a tensor that paired records made, or calls of known gain from what those made."""
    part = context.part.candidate if is_candidates else context.part.baseline
    passed = rounded = 0.0
    ancestors: frozenset[tuple[int, str]] = frozenset()
    origins = [origin for origin in part.origins_of(leaf) if origin.kind not in ("parameter", "buffer")]
    for origin in origins:
        found = _behind_origin(context, origin, leaf, is_candidates=is_candidates) if origin.name != but else None
        if found is None:
            return None
        passed, rounded = passed + found[0].passed, rounded + found[0].rounded
        ancestors |= found[1]
    return (_Moved(passed, rounded), ancestors) if origins else None


def _behind_origin(context: PartContext, origin: Origin, leaf: TensorLeaf, *, is_candidates: bool) -> _Ancestry | None:
    at = context.context_of(origin)
    if at is None:
        return None
    if at.is_alone(origin.name, is_candidates=is_candidates):
        return _behind_call(at, origin.name, is_candidates=is_candidates)
    maker = at.paired(origin.name, is_candidates=is_candidates)
    if maker is None or maker.passes_on:
        return None
    moved = largest_distance(results_like(maker, leaf.shape))
    return None if moved is None else (_Moved(moved, 0.0), frozenset({(at.step, maker.name)}))


def _norm(leaf: TensorLeaf) -> float | None:
    norm = leaf.statistics.norm if leaf.statistics is not None else None
    is_size = isinstance(norm, (int, float)) and math.isfinite(norm) and norm > 0
    return float(norm) if is_size and norm is not None else None
