"""The text of a step: templates of its records, filled with the texts of its tensors, joined by compiled code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from torchparity.calls import attempted
from torchparity.kernels.arenas import MeasuredRows
from torchparity.kernels.texts import NO_TEXT, Text, joined_lines
from torchparity.recording.measuring.observed import ObservedTensor
from torchparity.recording.measuring.pending import fill
from torchparity.recording.step.drafts import Draft
from torchparity.recording.step.pieces import Pieces
from torchparity.recording.step.templates import (
    EncodedList,
    Template,
    ValueList,
    likeness,
    make_template,
    shown,
    value_lists,
    without_lists,
)
from torchparity.recording.step.tensor_texts import TensorTexts
from torchparity.storage.encoding import EncodedRecord, EncodedStep, encode_each


class _Lines:
    """The lines of a step, in columns: the name of each, its pieces, its fillings and how many it has.

    Fillings are tensors by their places, and after those lists of values and the seconds of calls.
    """

    def __init__(self, tensors: int) -> None:
        self.names: list[str] = []
        self.pieces: list[int] = []
        self.fillings: list[int] = []
        self.holes: list[int] = []
        self.values: list[Any] = []
        self._tensors = tensors

    def add(self, draft: Draft, template: Template, places: Sequence[int], lists: Sequence[EncodedList]) -> None:
        """Add the line of a record, whose tensors have these places and which was given these lists of values."""
        self.names.append(draft.name)
        self.pieces += template
        self.holes.append(len(template) - 1)
        if lists:
            places = self._with_lists(places, lists)
        self.fillings += places
        if draft.seconds is not None:
            self.fillings.append(self._tensors + len(self.values))
            self.values.append(round(draft.seconds, 9))

    def add_whole(self, name: str, piece: int) -> None:
        """Add a line that has no holes."""
        self.names.append(name)
        self.pieces.append(piece)
        self.holes.append(0)

    def _with_lists(self, places: Sequence[int], lists: Sequence[EncodedList]) -> list[int]:
        """Return fillings in the order of the text: tensors, and the lists of values between them."""
        fillings: list[int] = []
        filled = 0
        for before, text in lists:
            fillings += [*places[filled:before], self._tensors + len(self.values)]
            self.values.append(text)
            filled = before
        return [*fillings, *places[filled:]]


class StepEncoder:
    """Encodes the steps of a recording; used only by the writer's thread."""

    def __init__(self) -> None:
        self._pieces, self._tensors = Pieces(), TensorTexts()
        self._templates: dict[bytes, Template] = {}  # by the likeness of records

    def encode(
        self, drafts: Sequence[Draft], wait_for_rows: Callable[[], MeasuredRows]
    ) -> tuple[EncodedStep, list[str]]:
        """Return the records as JSON, without values, and a sentence about each that could not be encoded.

        What does not depend on the rows is done before they are waited for, while the devices still work.
        """
        if self._pieces.are_many():
            self._pieces.clear()
            self._templates.clear()
        tensors_of = [shown(draft) for draft in drafts]
        tensors, places = _placed(tensors_of)
        templates: list[Template | None] = []
        lines, begin = _Lines(len(tensors)), 0
        for draft, of_draft in zip(drafts, tensors_of, strict=True):
            end, lists = begin + len(of_draft), value_lists(draft)
            encoded = attempted(_encoded, lists) if lists else ()
            template = None
            if not isinstance(encoded, Exception):
                template = self._template(without_lists(draft, lists) if lists else draft)
                if template is not None:
                    lines.add(draft, template, places[begin:end], encoded)
            templates.append(template)
            begin = end
        prepared = self._tensors.prepared(tensors)
        rows = wait_for_rows()
        texts, failures = self._tensors.of_step(tensors, prepared, rows)
        if not failures and None not in templates:
            return EncodedStep(self._joined(lines, texts), len(drafts)), []
        usable = [None] * len(drafts) if failures else templates
        return self._encode_some_alone(drafts, usable, tensors_of, places, texts, rows)

    def _encode_some_alone(
        self,
        drafts: Sequence[Draft],
        templates: Sequence[Template | None],
        tensors_of: Sequence[Sequence[ObservedTensor]],
        places: Sequence[int],
        texts: Text,
        rows: MeasuredRows,
    ) -> tuple[EncodedStep, list[str]]:
        """Encode a step in which some records have no template, each of those by itself."""
        lines, debug, left_out, begin = _Lines(len(texts[1]) - 1), list[EncodedRecord](), list[str](), 0
        with self._pieces.for_a_while():
            for draft, template, of_draft in zip(drafts, templates, tensors_of, strict=True):
                end = begin + len(of_draft)
                if template is not None:
                    lines.add(draft, template, places[begin:end], _encoded(value_lists(draft)))
                else:
                    record = attempted(_whole, draft, of_draft, rows)
                    if isinstance(record, Exception):
                        left_out.append(unrecorded(draft.name[:200], record))
                    elif record.direction == "debug":
                        debug.append(record)
                    else:
                        lines.add_whole(record.name, self._pieces.add(b": " + record.entry))
                begin = end
            joined = self._joined(lines, texts)
        return EncodedStep(joined, len(lines.names), debug), left_out

    def _template(self, draft: Draft) -> Template | None:
        """Return the template of a record; None where it needs a text of its own."""
        if draft.error is not None or draft.direction == "debug":
            return None
        key = attempted(likeness, draft)
        if isinstance(key, Exception):
            return None
        template = self._templates.get(key)
        if template is None:
            made = attempted(make_template, draft, self._pieces)
            if isinstance(made, Exception):
                return None
            template = self._templates[key] = made
        return template

    def _joined(self, lines: _Lines, tensors: Text) -> memoryview:
        fillings = _followed_by(tensors, encode_each(lines.values))
        names = _followed_by(NO_TEXT, encode_each(lines.names))
        return joined_lines(names, self._pieces.arrays(), fillings, lines.pieces, lines.fillings, lines.holes)


def unrecorded(what: str, error: Exception) -> str:
    """Return a sentence about what could not be written."""
    return f"{what} could not be written ({type(error).__name__}: {str(error)[:200]})."


def _placed(tensors_of: Sequence[Sequence[ObservedTensor]]) -> tuple[list[ObservedTensor], list[int]]:
    """Return the tensors of a step, each once and in the order in which records show them, and the place of each shown.

    All of it flat: lists of lists would be walked by the garbage collector.
    """
    identities = list(map(id, chain.from_iterable(tensors_of)))
    distinct = dict(zip(identities, chain.from_iterable(tensors_of), strict=True))
    place_of = dict(zip(distinct, range(len(distinct)), strict=True))
    return list(distinct.values()), list(map(place_of.__getitem__, identities))


def _encoded(lists: Iterable[ValueList]) -> list[EncodedList]:
    return [each.encoded() for each in lists]


def _whole(draft: Draft, tensors: Iterable[ObservedTensor], rows: MeasuredRows) -> EncodedRecord:
    """Return a record that has no template."""
    for tensor in tensors:
        if tensor.measurement is not None:
            fill(tensor.measurement, rows)
    return draft.encoded()


def _followed_by(text: Text, pieces: Sequence[bytes]) -> Text:
    """Return text with further pieces."""
    buffer, starts = text
    sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
    further = np.frombuffer(b"".join(pieces), np.uint8)
    return np.concatenate([buffer, further]), np.concatenate([starts, starts[-1] + np.cumsum(sizes)])
