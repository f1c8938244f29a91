"""The truth about a pair of runs, from the bits of their tensors alone and without the judging that is tested."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tests.faultbed.catalogue import Catalogue
from tests.faultbed.fault import Truth
from torchparity import open_run
from torchparity.records import Item, Record, TensorLeaf, ValueLeaf
from torchparity.storage import RunPart

_EPSILON = {"torch.float32": 2.0**-23, "torch.float64": 2.0**-52, "torch.bfloat16": 2.0**-7, "torch.float16": 2.0**-10}
# What memory held before anybody wrote it is no value.
_NO_VALUES = ("Torch.empty", "Tensor.new_empty")


class Difference(NamedTuple):
    """A record that differs in its bits, and in which of its sides; `alone` where one run alone has it."""

    step: int
    record: str
    inputs: bool
    arguments: bool
    outputs: bool
    alone: bool = False


@dataclass(frozen=True)
class Resolved:
    """The truth of one case: the accepted records, the first record that differs at all, ULPs of the output."""

    records: frozenset[str]
    first: str
    ulps: float | None
    is_void: bool
    is_confirmed: bool


def differences(candidate: Path, baseline: Path) -> list[Difference]:
    """Return every record that differs, in the candidate's order of time; those of the baseline alone come last."""
    left, right = open_run(candidate), open_run(baseline)
    found = []
    for mine, other in zip(left.parts, right.parts, strict=True):
        found += list(_of_part(mine, other))
    return found


def _of_part(mine: RunPart, other: RunPart) -> Iterator[Difference]:
    for name, record in mine.records.items():
        partner = other.records.get(name)
        if partner is None:
            yield Difference(mine.step, name, False, False, False, alone=True)
            continue
        sides = _sides(mine, other, record, partner)
        if any(sides):
            yield Difference(mine.step, name, *sides)
    for name in other.records:
        if name not in mine.records:
            yield Difference(mine.step, name, False, False, False, alone=True)


def _sides(mine: RunPart, other: RunPart, record: Record, partner: Record) -> tuple[bool, bool, bool]:
    """Tell whether inputs, other arguments and outputs differ."""
    inputs = arguments = outputs = False
    theirs = {item.name: item for item in partner.items()}
    ours = {item.name: item for item in record.items()}
    for name in ours.keys() | theirs.keys():
        item, its = ours.get(name), theirs.get(name)
        if _is_equal(mine, other, item, its) or _is_uninitialised(record.name, name):
            continue
        role = (item or its).role  # type: ignore[union-attr]
        is_tensor = any(side is not None and isinstance(side.leaf, TensorLeaf) for side in (item, its))
        if role in ("output", "parameters_grad"):
            outputs = True
        elif is_tensor and item is not None and its is not None and item.leaf is not None and its.leaf is not None:
            inputs = True
        else:
            arguments = True
    return inputs, arguments, outputs


def _is_uninitialised(record: str, item: str) -> bool:
    return record.startswith(_NO_VALUES) or (record.startswith("Tensor.__setitem__") and item == "input.0")


def _is_equal(mine: RunPart, other: RunPart, item: Item | None, its: Item | None) -> bool:
    if item is None or its is None:
        return (item or its).leaf is None  # type: ignore[union-attr]
    if isinstance(item.leaf, TensorLeaf) and isinstance(its.leaf, TensorLeaf):
        if (item.leaf.shape, item.leaf.dtype) != (its.leaf.shape, its.leaf.dtype):
            return False
        if item.leaf.data_name is None or its.leaf.data_name is None:
            return True
        return _bytes(mine, item.leaf) == _bytes(other, its.leaf)
    if isinstance(item.leaf, ValueLeaf) and isinstance(its.leaf, ValueLeaf):
        return repr(item.leaf.value) == repr(its.leaf.value)
    return (item.leaf is None) == (its.leaf is None)


def _bytes(part: RunPart, leaf: TensorLeaf) -> bytes:
    return part.tensor(leaf, verify=False).array.tobytes()


def resolve(truth: Truth, found: list[Difference], catalogue: Catalogue, candidate: Path, baseline: Path) -> Resolved:
    """Return the accepted records by the name that this pair gives them, and check them against the bits."""
    records = truth.records
    here = [each for each in found if each.step == truth.step]
    if truth.family:
        calls = [each.record for each in here if each.arguments and each.record.rsplit(".", 2)[0] == truth.family]
        records = frozenset(calls[:1])
    elif not records:
        records = frozenset(name for each in here[:1] for name in catalogue.same_call(each.record))
    if truth.alone:
        gone = [each.record for each in here if each.alone and each.record.endswith(".backward")]
        records |= catalogue.same_backward(gone[0].removesuffix("backward") + "forward") if gone else frozenset()
    first = found[0] if found else None
    is_void = not any(each.inputs or each.outputs or each.alone for each in found)
    if truth.kernel_returns_nothing and first is not None and first.step > truth.step:
        records |= {f"step{first.step} {name}" for name in catalogue.same_call(first.record)}
    is_confirmed = first is not None and is_among(first.record, first.step, records, truth.step)
    ulps = _ulps(records, truth.step, candidate, baseline)
    return Resolved(records, first.record if first else "", ulps, is_void, is_confirmed)


def is_among(record: str, step: int, records: frozenset[str], true_step: int) -> bool:
    """Tell whether a record of a step is one of the accepted; those of another step have it before their name."""
    return (record in records and step == true_step) or f"step{step} {record}" in records


def _ulps(records: frozenset[str], step: int, candidate: Path, baseline: Path) -> float | None:
    """Return the largest distance of an output of these records, in ULPs of its norm; None where it has none."""
    mine, other = (open_run(path).part(step=step) for path in (candidate, baseline))
    distances = []
    for name in records:
        if name not in mine.records or name not in other.records:
            continue
        theirs = {item.name: item.leaf for item in other.records[name].items()}
        for item in mine.records[name].items():
            its = theirs.get(item.name)
            if item.role not in ("output", "parameters_grad") or not isinstance(its, TensorLeaf):
                continue
            if isinstance(item.leaf, TensorLeaf) and item.leaf.dtype == its.dtype and its.dtype in _EPSILON:
                left, right = mine.tensor(item.leaf, verify=False).array, other.tensor(its, verify=False).array
                distances.append(_relative(left, right) / _EPSILON[its.dtype])
    finite = [distance for distance in distances if math.isfinite(distance)]
    return max(finite) if finite and len(finite) == len(distances) else None


def _relative(left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]) -> float:
    if left.shape != right.shape:
        return math.inf
    mine, other = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        distance, size = float(np.linalg.norm(mine - other)), float(np.linalg.norm(other))
    if distance == 0:
        return 0.0
    return distance / size if size else math.inf
