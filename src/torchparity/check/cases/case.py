"""One recorded call of an API, to be run again alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torchparity.errors import RecordNameError
from torchparity.naming import RecordName, parse_record
from torchparity.records import Record, TensorLeaf
from torchparity.storage import RunPart


@dataclass(frozen=True)
class Case:
    """One call: `name` is "Functional.linear.0", `api` what all its calls share, "Functional.linear"."""

    name: str
    api: str
    operator: str
    forward: Record
    backward: Record | None
    part: RunPart

    @property
    def uses_autocast(self) -> bool:
        """True where a call of the step ran under autocast, so that dtypes may have been changed on the way in."""
        return "autocast" in self.part.info.environment


def cases_of(part: RunPart) -> Iterator[Case]:
    """Yield every call of an API in the order of the run; modules and second backward passes have none."""
    records = part.records
    for record in records.values():
        name = _name_of(record)
        if name is None or name.is_module or name.direction != "forward" or name.mark is not None:
            continue
        backward = records.get(str(name.backward))
        if backward is not None and not _has_gradients(record, backward):
            backward = None  # a factory's, whose arguments have none
        yield Case(f"{name.family}.{name.call}", name.family, name.operator, record, backward, part)


def _has_gradients(forward: Record, backward: Record) -> bool:
    if not backward.output and not backward.output_kwargs:  # a backward_info tells what came in alone
        return any(item.role == "input" and isinstance(item.leaf, TensorLeaf) for item in forward.items())
    return any(item.role == "output" and isinstance(item.leaf, TensorLeaf) for item in backward.items())


def _name_of(record: Record) -> RecordName | None:
    try:
        return parse_record(record.name)
    except RecordNameError:
        return None  # a user's own prefix may be anything
