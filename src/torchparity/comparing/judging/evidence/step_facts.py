"""Facts about a step for people: the losses that backward was called on, and the norm of the gradients.

Both are read from the records alone. A loss is a number whose gradient is 1 and that no differentiated call took in.
clip_grad_norm_ is known by what it computes: clamp(max_norm / (norm + 1e-6), max=1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from torchparity.errors import RecordNameError
from torchparity.naming import forward_of, is_module_name, parse_record
from torchparity.records import Record, TensorLeaf, ValueLeaf
from torchparity.spellings import canonical_operator
from torchparity.storage import RunPart

_CLIP_EPSILON = 1e-6
_CLIP_REACH = 4  # records within which the clamp follows the sum
_NORMS = ("vector_norm", "norm", "max", "amax")
_CLIPPING = ("clip_grad_norm_", "get_total_norm")


class StepFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The losses and norms of one step.

    `losses` are those that backward was called on, in that order, one for each micro-batch: under a GradScaler
    the scaled ones, and where a program divides by the number of micro-batches the quotients. `loss_records` are the
    forward records that returned them. `gradient_norms` are the results of clip_grad_norm_, before clipping.
    """

    losses: tuple[float, ...] = ()
    loss_records: tuple[str, ...] = ()
    gradient_norms: tuple[float, ...] = ()

    @property
    def loss(self) -> float | None:
        """The first loss; None where none was recorded."""
        return self.losses[0] if self.losses else None

    @property
    def loss_record(self) -> str | None:
        """The forward record that returned the first loss."""
        return self.loss_records[0] if self.loss_records else None

    @property
    def gradient_norm(self) -> float | None:
        """The first norm; None where clip_grad_norm_ was not called, or not recorded."""
        return self.gradient_norms[0] if self.gradient_norms else None


def step_facts(part: RunPart) -> StepFacts:
    """Return the losses and gradient norms of one step of one rank."""
    records = part.records
    losses = _losses(records, part.construct)
    norms = _clipped_norms(list(records.values())) or _norms_by_stack(part)
    return StepFacts(
        losses=tuple(value for _, value in losses),
        loss_records=tuple(name for name, _ in losses),
        gradient_norms=tuple(norms),
    )


def _losses(records: Mapping[str, Record], parents: Mapping[str, str | None]) -> list[tuple[str, float]]:
    """Return the forward records of the losses with their values, in the order of their backward passes."""
    places = {name: place for place, name in enumerate(records)}
    started: list[tuple[str, str, float]] = []
    for name, record in records.items():
        if record.direction != "backward" or not _is_alone(record.input_args):
            continue
        forward = records.get(forward_of(name))
        value = _started_from(record, forward) if forward is not None else None
        if forward is not None and value is not None:
            started.append((name, forward.name, value))
    if not started:
        return []
    taken_in = _taken_in(records, places)
    found = [
        (forward, value)
        for name, forward, value in started
        if not any(places[forward] < use < places[name] for use in taken_in.get(repr(value), ()))
    ]
    return _without_wrappers(found, parents)


def _taken_in(records: Mapping[str, Record], places: Mapping[str, int]) -> dict[str, list[int]]:
    """Return for each number that differentiated calls took in the places of those calls."""
    differentiated = {forward_of(name) for name, record in records.items() if record.direction == "backward"}
    uses: dict[str, list[int]] = {}
    for name in differentiated & records.keys():
        record = records[name]
        if all(isinstance(leaf, TensorLeaf) and leaf.numel != 1 for leaf in record.input_args) and not (
            record.input_kwargs
        ):
            continue  # most calls take no number in
        for value in _numbers(record, "input"):
            uses.setdefault(repr(value), []).append(places[name])
    return uses


def _started_from(backward: Record, forward: Record) -> float | None:
    """Return the number on which backward was called, if it is an output of this call: its gradient alone is 1."""
    gradients = list(_tensors(backward, "input"))
    if [_number(leaf) for _, leaf in gradients] != [1.0]:
        return None
    place = gradients[0][0].partition(".")[2]
    outputs = {name.partition(".")[2]: leaf for name, leaf in _tensors(forward, "output")}
    return _number(outputs[place]) if place in outputs else None


def _is_alone(gradients: Sequence[object]) -> bool:
    """Tell whether the one tensor among a record's inputs, if it has one, may be a number; most hold many."""
    first = gradients[0] if len(gradients) == 1 else None
    return not isinstance(first, TensorLeaf) or first.numel == 1


def _without_wrappers(
    losses: Sequence[tuple[str, float]], parents: Mapping[str, str | None]
) -> list[tuple[str, float]]:
    """Leave out modules that only return what a call inside of them computed."""
    wrappers: set[tuple[str, str]] = set()
    for name, value in losses:
        for ancestor in _ancestors(name, parents):
            wrappers.add((ancestor, repr(value)))
    calls = {repr(value) for name, value in losses if not is_module_name(name)}
    return [
        (name, value)
        for name, value in losses
        if (name, repr(value)) not in wrappers and not (is_module_name(name) and repr(value) in calls)
    ]


def _ancestors(name: str, parents: Mapping[str, str | None]) -> Iterator[str]:
    seen: set[str] = set()
    parent = parents.get(name)
    while parent is not None and parent not in seen:
        seen.add(parent)
        yield parent
        parent = parents.get(parent)


def _clipped_norms(records: Sequence[Record]) -> list[float]:
    """Return the norms to which clip_grad_norm_ adds its epsilon before it clamps the quotient at 1."""
    norms = []
    for place, record in enumerate(records):
        if record.direction != "forward" or "add" not in record.name or _operator(record.name) != "add":
            continue
        norm, epsilon = _numbers(record, "input"), _scalars(record)
        if len(norm) == 1 and epsilon == [_CLIP_EPSILON]:
            following = records[place + 1 : place + 1 + _CLIP_REACH]
            if any(_operator(after.name) == "clamp" and 1.0 in _scalars(after) for after in following):
                norms += norm
    return norms


def _norms_by_stack(part: RunPart) -> list[float]:
    """Return the last norm that each call of clip_grad_norm_ computed, as its call stack names it."""
    norms = []
    for group in part.stacks:
        if any(word in frame for frame in group.frames for word in _CLIPPING):
            named = [part.records[name] for name in group.records if _operator(name) in _NORMS and name in part.records]
            numbers = [number for record in named for number in _numbers(record, "output")]
            norms += numbers[-1:]
    return norms


def _operator(name: str) -> str | None:
    try:
        parsed = parse_record(name)
    except RecordNameError:
        return None
    return None if parsed.is_module else canonical_operator(parsed.operator).rpartition(".")[2]


def _tensors(record: Record, role: str) -> Iterator[tuple[str, TensorLeaf]]:
    for item in record.items():
        if item.role == role and isinstance(item.leaf, TensorLeaf):
            yield item.name, item.leaf


def _numbers(record: Record, role: str) -> list[float]:
    """Return the values of tensors of one element that a call took in or returned."""
    return [number for _, leaf in _tensors(record, role) if (number := _number(leaf)) is not None]


def _number(leaf: TensorLeaf) -> float | None:
    """Return the value of a tensor of one element; None where it has more, or no statistics."""
    value = leaf.statistics.max if leaf.statistics is not None and leaf.numel == 1 else None
    return None if value is None or isinstance(value, bool) else float(value)


def _scalars(record: Record) -> list[float]:
    values: Iterable[object] = (item.leaf.value for item in record.items() if isinstance(item.leaf, ValueLeaf))
    return [value for value in values if isinstance(value, float)]
