"""The text of a record with holes for what differs between calls: its name, its tensors and its time.

Layers repeat and steps repeat: most calls are made with the arguments of an earlier one, and have its text. A record
that differs in anything but the holes gets a new template.
"""

from __future__ import annotations

from typing import Any

import msgspec

from torchparity.recording.measuring.observed import ObservedTensor
from torchparity.recording.step.drafts import Draft, Tensors
from torchparity.recording.step.pieces import Pieces
from torchparity.records import ValueLeaf
from torchparity.storage.encoding import argument_json, assemble_record

_HOLE = b"\0"  # which no JSON text contains
_TIME = 0.5  # stands for the seconds of a call, which are the last number of its text
_TIME_TEXT = b'"seconds":0.5'


Slots = tuple[list[int], list[int]]


class Template(msgspec.Struct, gc=False):
    """Pieces of a record's text, by their numbers among those of the recording.

    The name comes before the first, the tensors between them, and before the last the time.
    """

    draft: Draft  # without its tensors: what a record must be like to have this text
    slots: Slots | None
    names: tuple[str, ...] | None  # of its parameters or gradients
    exact: str | None  # where arguments that are equal may have different texts, such as 0.0 and -0.0
    pieces: list[int]
    has_time: bool

    def fits(self, draft: Draft) -> bool:
        """Tell whether a record has this text."""
        like = self.draft
        return (
            like.input_args == draft.input_args
            and like.output == draft.output
            and like.input_kwargs == draft.input_kwargs
            and like.output_kwargs == draft.output_kwargs
            and like.is_recompute is draft.is_recompute
            and like.in_backward is draft.in_backward
            and like.direction == draft.direction
            and draft.error is None
            and self.has_time is (draft.seconds is not None)
            and self.slots == _slots(draft)
            and self.names == _names(draft)
            and (self.exact is None or self.exact == repr(_arguments(draft)))
        )


def make_template(draft: Draft, pieces: Pieces) -> Template:
    """Return the template of a record; raise what encoding raises where no JSON can hold it."""
    like = msgspec.structs.replace(draft, inputs=(), outputs=(), parameters=None, gradients=None, source=None)
    has_time = draft.seconds is not None
    stand_in = msgspec.structs.replace(draft, seconds=_TIME if has_time else None)
    record = stand_in.record(lambda name, form, tensors: _with_holes(form, tensors))
    parts = (b": " + assemble_record(record).entry).split(_HOLE)
    if has_time:
        before, _, after = parts[-1].rpartition(_TIME_TEXT)
        parts[-1:] = [before + b'"seconds":', after]
    arguments = _arguments(draft)
    exact = repr(arguments) if _may_be_equal_and_differ(arguments) else None
    return Template(like, _slots(draft), _names(draft), exact, list(map(pieces.add, parts)), has_time)


def shown(draft: Draft) -> list[ObservedTensor]:
    """Return the tensors of a record in the order of its text."""
    inputs, outputs = draft.inputs, draft.outputs
    tensors = [inputs[slot] for slot in sorted(inputs)] if isinstance(inputs, dict) else list(inputs)
    tensors += [outputs[slot] for slot in sorted(outputs)] if isinstance(outputs, dict) else outputs
    if draft.parameters:
        tensors += draft.parameters.values()
    elif draft.gradients:
        tensors += draft.gradients.values()
    return tensors


def _slots(draft: Draft) -> Slots | None:
    """Return the slots that have gradients in a backward record; any other record has all that its forms name."""
    inputs, outputs = draft.inputs, draft.outputs
    if not isinstance(inputs, dict) or not isinstance(outputs, dict):
        return None
    return sorted(inputs), sorted(outputs)


def _names(draft: Draft) -> tuple[str, ...] | None:
    named = draft.gradients if draft.parameters is None else draft.parameters
    return None if named is None else tuple(named)


def _arguments(draft: Draft) -> tuple[Any, ...]:
    return draft.input_args, draft.input_kwargs, draft.output, draft.output_kwargs


def _may_be_equal_and_differ(form: Any) -> bool:
    """Tell whether a form has an argument that equals one of another text: 0.0 and -0.0, or [1] and [True]."""
    if isinstance(form, (list, tuple)):
        return any(map(_may_be_equal_and_differ, form))
    if isinstance(form, dict):
        return any(map(_may_be_equal_and_differ, form.values()))
    if not isinstance(form, ValueLeaf):
        return False
    return isinstance(form.value, list) or (isinstance(form.value, float) and form.value == 0)


def _with_holes(form: Any, tensors: Tensors) -> Any:
    """Return a form as msgspec writes it, with a hole for each tensor."""
    kind = type(form)
    if kind is ObservedTensor:
        return msgspec.Raw(_HOLE)
    if kind is int:
        return None if tensors.get(form) is None else msgspec.Raw(_HOLE)
    if kind is list or kind is range:
        return [_with_holes(entry, tensors) for entry in form]
    if kind is dict:
        return {key: _with_holes(entry, tensors) for key, entry in form.items()}
    return None if form is None or tensors.are_gradients else argument_json(form)
