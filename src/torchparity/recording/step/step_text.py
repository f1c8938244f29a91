"""The text of a step: templates of its records, filled with the texts of its tensors, joined by compiled code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from torchparity.calls import attempted
from torchparity.kernels.arenas import MeasuredRows
from torchparity.kernels.texts import NO_TEXT, Text, joined_lines
from torchparity.recording.measuring.observed import ObservedTensor
from torchparity.recording.measuring.pending import fill
from torchparity.recording.step.drafts import Draft
from torchparity.recording.step.pieces import Pieces
from torchparity.recording.step.templates import (
    Template,
    ValueList,
    likeness,
    make_template,
    shown,
    value_lists,
    without_lists,
)
from torchparity.recording.step.tensor_texts import TensorTexts
from torchparity.storage.encoding import EncodedRecord, EncodedStep, argument_json, encode_each


class _Prepared(NamedTuple):
    """A record whose line is laid out: its template, the places of its tensors, and its lists of values."""

    draft: Draft
    template: Template | None  # None: it needs a text of its own
    places: Sequence[int]  # among the tensors of the step
    lists: Sequence[ValueList]


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

    def add(self, record: _Prepared, template: Template) -> None:
        draft, filled = record.draft, 0
        self.names.append(draft.name)
        self.pieces += template
        self.holes.append(len(template) - 1)
        for values in record.lists:
            self.fillings += record.places[filled : values.tensors_before]
            self._fill(list(map(argument_json, values.values)))
            filled = values.tensors_before
        self.fillings += record.places[filled:] if filled else record.places
        if draft.seconds is not None:
            self._fill(round(draft.seconds, 9))

    def add_whole(self, name: str, piece: int) -> None:
        """Add a line that has no holes."""
        self.names.append(name)
        self.pieces.append(piece)
        self.holes.append(0)

    def _fill(self, value: Any) -> None:
        self.fillings.append(self._tensors + len(self.values))
        self.values.append(value)


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
        records, tensors = self._prepared(drafts)
        lines = _Lines(len(tensors))
        for record in records:
            if record.template is not None:
                lines.add(record, record.template)
        prepared = self._tensors.prepared(tensors)
        rows = wait_for_rows()
        texts, failures = self._tensors.of_step(tensors, prepared, rows)
        if not failures and all(record.template for record in records):
            return EncodedStep(self._joined(lines, texts), len(drafts)), []
        if failures:
            records = [record._replace(template=None) for record in records]
        return self._encode_some_alone(records, tensors, texts, rows)

    def _prepared(self, drafts: Sequence[Draft]) -> tuple[list[_Prepared], list[ObservedTensor]]:
        """Return the records, and their tensors, each once and in the order in which records show them."""
        tensors_of = [shown(draft) for draft in drafts]
        identities = [list(map(id, tensors)) for tensors in tensors_of]
        distinct = dict(zip(chain.from_iterable(identities), chain.from_iterable(tensors_of), strict=True))
        place_of = dict(zip(distinct, range(len(distinct)), strict=True)).__getitem__
        records = []
        for draft, of_draft in zip(drafts, identities, strict=True):
            lists = value_lists(draft)
            template = self._template(without_lists(draft, lists) if lists else draft)
            records.append(_Prepared(draft, template, list(map(place_of, of_draft)), lists))
        return records, list(distinct.values())

    def _encode_some_alone(
        self, records: Sequence[_Prepared], tensors: Sequence[ObservedTensor], texts: Text, rows: MeasuredRows
    ) -> tuple[EncodedStep, list[str]]:
        """Encode a step in which some records have no template, each of those by itself."""
        lines, debug, left_out = _Lines(len(tensors)), list[EncodedRecord](), list[str]()
        with self._pieces.for_a_while():
            for record in records:
                if record.template is not None:
                    lines.add(record, record.template)
                    continue
                shown_by = [tensors[place] for place in record.places]
                encoded = attempted(_whole, record.draft, shown_by, rows)
                if isinstance(encoded, Exception):
                    left_out.append(unrecorded(record.draft.name[:200], encoded))
                elif encoded.direction == "debug":
                    debug.append(encoded)
                else:
                    lines.add_whole(encoded.name, self._pieces.add(b": " + encoded.entry))
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
