"""Calls that overflowed, as their records tell: what they received is finite, what they returned is not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from torchparity.errors import RecordNameError
from torchparity.naming import RecordName, forward_of, parse_record
from torchparity.overwrites import is_overwritten
from torchparity.records import Item, Leaf, Record, TensorLeaf, ValueLeaf
from torchparity.storage import RunPart


class Sign(Enum):
    """The sign by which a call is suspected."""

    SEEN = auto()  # its result is not finite
    FLAGGED = auto()  # its result is finite, and the device's flag went up
    UNKNOWN = auto()  # its result was not recorded


@dataclass(frozen=True)
class Suspect:
    """One direction of a call that may have overflowed; `backward` is its record where that is the direction."""

    name: RecordName
    forward: Record
    backward: Record | None
    sign: Sign

    @property
    def record(self) -> Record:
        """The record of the direction that is suspected."""
        return self.backward or self.forward


def suspects_of(part: RunPart) -> Iterator[Suspect]:
    """Yield every suspect of a part, in the order of its records."""
    for record in part.records.values():
        suspect = _suspect(record, part)
        if suspect is not None:
            yield suspect


def _suspect(record: Record, part: RunPart) -> Suspect | None:
    try:
        name = parse_record(record.name)
    except RecordNameError:
        return None  # a user's own prefix may be anything
    if name.is_module or name.direction not in ("forward", "backward") or not _is_finite(_received(record)):
        return None
    only_overflows = part.info.task == "overflow_check"
    sign = _sign(record, only_overflows)
    if sign is None or name.direction == "forward":
        return None if sign is None else Suspect(name, record, None, sign)
    forward = part.records.get(forward_of(record.name))
    if forward is None or not _is_finite(_received(forward)):
        return None
    if _sign(forward, only_overflows) in (Sign.SEEN, Sign.FLAGGED):
        return None  # what its gradients become is no news
    return Suspect(name, forward, record, sign)


def _sign(record: Record, only_overflows: bool) -> Sign | None:
    """Return why a record that received finite arguments is suspected; None where it is not."""
    returned = [item for item in record.items() if item.role == "output"]
    tensors = [item.leaf for item in returned if isinstance(item.leaf, TensorLeaf)]
    if not record.output and not record.output_kwargs:
        return Sign.UNKNOWN
    if not _is_finite(returned) or (only_overflows and not tensors):
        return Sign.SEEN  # or it wrote its arguments, and returned nothing
    is_measured = any(leaf.statistics is not None for leaf in tensors)
    return Sign.FLAGGED if only_overflows and is_measured else None


def _received(record: Record) -> list[Item]:
    items = (item for item in record.items() if item.role == "input")
    return [item for item in items if not is_overwritten(record.name, item.name)]


def _is_finite(items: Iterable[Item]) -> bool:
    return all(_is_finite_leaf(item.leaf) for item in items)


def _is_finite_leaf(leaf: Leaf) -> bool:
    if isinstance(leaf, TensorLeaf):
        numbers = () if leaf.statistics is None else (leaf.statistics.max, leaf.statistics.min)
    elif isinstance(leaf, ValueLeaf):
        numbers = tuple(leaf.value) if isinstance(leaf.value, list) else (leaf.value,)
    else:
        return True
    return all(math.isfinite(number) for number in numbers if isinstance(number, float))
