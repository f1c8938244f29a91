"""The text of a record with holes for what differs between calls: its name, its tensors and its time.

Layers repeat and steps repeat: most calls are made with the arguments of an earlier one, and have its text. A record
that differs in anything but the holes gets a new template. A long list of numbers is a hole too: an optimizer hands one
over for each of its parameters, and others in each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from torchparity.errors import InternalError
from torchparity.recording.measuring.observed import ObservedTensor
from torchparity.recording.step.drafts import Draft, Observed, Tensors
from torchparity.recording.step.pieces import Pieces
from torchparity.records import ValueLeaf
from torchparity.storage.encoding import argument_json, assemble_record

_HOLE = b"\0"  # which no JSON text contains
_TIME = 0.5  # stands for the seconds of a call, which are the last number of its text
_TIME_TEXT = b'"seconds":0.5'

_MANY = 8  # values of a list that is a hole
_LIST = object()  # stands for such a list in a form

# The pieces of a record's text, by their numbers among those of the recording. The name comes before the first, the
# tensors between them, and before the last the time.
Template = list[int]


class ValueList(NamedTuple):
    """A long list of plain values among the arguments of a call."""

    tensors_before: int  # in the text of the record
    values: tuple[ValueLeaf, ...]

    def encoded(self) -> EncodedList:
        """Return the list as JSON; raise where it holds what no JSON can."""
        return EncodedList(self.tensors_before, msgspec.Raw(msgspec.json.encode(list(map(argument_json, self.values)))))


class EncodedList(NamedTuple):
    """A list of values as it is in the text of the record."""

    tensors_before: int
    text: msgspec.Raw


def value_lists(draft: Draft) -> Sequence[ValueList]:
    """Return the long lists of values that a call was given beside tensors; none where its arguments are nested.

    A backward record has none: beside gradients, some of which may not have come, no values are shown.
    """
    if not draft.input_args or tuple not in map(type, draft.input_args) or isinstance(draft.inputs, dict):
        return ()  # nearly always
    lists: list[ValueList] = []
    tensors = 0
    for form in draft.input_args:
        kind = type(form)
        if kind is int:
            tensors += 1
        elif kind is range:
            tensors += len(form)
        elif kind is tuple:
            if len(form) < _MANY or set(map(type, form)) != {ValueLeaf}:
                return ()
            lists.append(ValueList(tensors, form))
        elif kind is dict:
            return ()
    return lists


def without_lists(draft: Draft, lists: Sequence[ValueList]) -> Draft:
    """Return a draft with holes in place of its lists of values."""
    values = [each.values for each in lists]
    forms = tuple([_LIST if any(form is each for each in values) else form for form in draft.input_args or ()])
    return msgspec.structs.replace(draft, input_args=forms)


def _of_unknown(form: Any) -> tuple[str, ...] | tuple[str, int, int]:
    """Return what stands for a list in a form: one of many tensors, or a hole; msgspec knows everything else in one."""
    if form is _LIST:
        return ("list",)
    if type(form) is not range:
        raise TypeError(type(form).__name__)
    return "range", form.start, form.stop


_encode_likeness = msgspec.msgpack.Encoder(enc_hook=_of_unknown).encode


def likeness(draft: Draft) -> bytes:
    """Return what is equal for two records exactly if one template serves both; raise where a form has no bytes.

    Unlike `==` it tells 0.0 from -0.0, [1] from [True] and one order of keywords from another.
    """
    return _encode_likeness(
        (
            draft.direction,
            draft.input_args,
            draft.input_kwargs,
            draft.output,
            draft.output_kwargs,
            draft.is_recompute,
            draft.in_backward,
            draft.seconds is None,
            _slots(draft.inputs),
            _slots(draft.outputs),
            _names(draft),
        )
    )


def make_template(draft: Draft, pieces: Pieces) -> Template:
    """Return the template of a record; raise where no JSON can hold it, or where it shows other tensors than it has."""
    has_time = draft.seconds is not None
    stand_in = msgspec.structs.replace(draft, seconds=_TIME if has_time else None)
    record = stand_in.record(lambda name, form, tensors: _with_holes(form, tensors))
    parts = (b": " + assemble_record(record).entry).split(_HOLE)
    holes = len(shown(draft)) + sum(form is _LIST for form in draft.input_args or ())
    if len(parts) - 1 != holes:
        raise InternalError(f"{draft.name[:200]} has {holes} tensors and lists and shows {len(parts) - 1}.")
    if has_time:
        before, _, after = parts[-1].rpartition(_TIME_TEXT)
        parts[-1:] = [before + b'"seconds":', after]
    return list(map(pieces.add, parts))


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


def _slots(tensors: Observed) -> list[int] | int:
    """Return the slots of the gradients that came; of any other tensors, which all are shown, how many there are."""
    return sorted(tensors) if isinstance(tensors, dict) else len(tensors)


def _names(draft: Draft) -> tuple[str, ...] | None:
    named = draft.gradients if draft.parameters is None else draft.parameters
    return None if named is None else tuple(named)


def _with_holes(form: Any, tensors: Tensors) -> Any:
    """Return a form as msgspec writes it, with a hole for each tensor."""
    kind = type(form)
    if kind is ObservedTensor or form is _LIST:
        return msgspec.Raw(_HOLE)
    if kind is int:
        return None if tensors.get(form) is None else msgspec.Raw(_HOLE)
    if kind is tuple or kind is range:
        return [_with_holes(entry, tensors) for entry in form]
    if kind is dict:
        return {key: _with_holes(entry, tensors) for key, entry in form.items()}
    return None if form is None or tensors.are_gradients else argument_json(form)
