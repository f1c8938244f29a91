"""The text of a step: templates of its records, filled with the texts of its tensors, joined by compiled code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter

import numpy as np

from torchparity.calls import attempted
from torchparity.kernels.arenas import MeasuredRows
from torchparity.kernels.texts import NO_TEXT, Text, joined_lines
from torchparity.recording.measuring.observed import ObservedTensor
from torchparity.recording.measuring.pending import fill
from torchparity.recording.step.drafts import Draft
from torchparity.recording.step.pieces import Pieces
from torchparity.recording.step.templates import Template, likeness, make_template, shown
from torchparity.recording.step.tensor_texts import TensorTexts
from torchparity.storage.encoding import EncodedRecord, EncodedStep, encode_each

_place = attrgetter("place")


class _Lines:
    """The lines of a step, in columns: the name of each, its pieces, its fillings and how many it has.

    Fillings are tensors by their places, and after those the seconds of calls.
    """

    def __init__(self, tensors: int) -> None:
        self.names: list[str] = []
        self.pieces: list[int] = []
        self.fillings: list[int] = []
        self.holes: list[int] = []
        self.seconds: list[float] = []
        self._tensors = tensors

    def add(self, draft: Draft, template: Template, tensors: Sequence[ObservedTensor]) -> None:
        self.names.append(draft.name)
        self.pieces += template
        self.fillings += map(_place, tensors)
        self.holes.append(len(template) - 1)
        if draft.seconds is not None:
            self.fillings.append(self._tensors + len(self.seconds))
            self.seconds.append(round(draft.seconds, 9))

    def add_whole(self, name: str, piece: int) -> None:
        """Add a line that has no holes."""
        self.names.append(name)
        self.pieces.append(piece)
        self.holes.append(0)


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
        tensors = _placed(tensors_of)
        templates = list(map(self._template, drafts))
        lines = _Lines(len(tensors))
        for draft, template, of_draft in zip(drafts, templates, tensors_of, strict=True):
            if template is not None:
                lines.add(draft, template, of_draft)
        beginnings = self._tensors.beginnings(tensors)
        rows = wait_for_rows()
        texts, failures = self._tensors.of_step(tensors, beginnings, rows)
        if None not in templates and not failures:
            return EncodedStep(self._joined(lines, texts), len(drafts), []), []
        usable = templates if not failures else [None] * len(drafts)
        return self._encode_some_alone(drafts, usable, tensors_of, texts, rows)

    def _encode_some_alone(
        self,
        drafts: Sequence[Draft],
        templates: Sequence[Template | None],
        tensors_of: Sequence[Sequence[ObservedTensor]],
        texts: Text,
        rows: MeasuredRows,
    ) -> tuple[EncodedStep, list[str]]:
        """Encode a step in which some records have no template, each of those by itself."""
        lines, debug, left_out = _Lines(len(texts[1]) - 1), list[EncodedRecord](), list[str]()
        with self._pieces.for_a_while():
            for draft, template, of_draft in zip(drafts, templates, tensors_of, strict=True):
                if template is not None:
                    lines.add(draft, template, of_draft)
                    continue
                record = attempted(_whole, draft, of_draft, rows)
                if isinstance(record, Exception):
                    left_out.append(unrecorded(draft.name[:200], record))
                elif record.direction == "debug":
                    debug.append(record)
                else:
                    lines.add_whole(record.name, self._pieces.add(b": " + record.entry))
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
        fillings = _followed_by(tensors, encode_each(lines.seconds))
        names = _followed_by(NO_TEXT, encode_each(lines.names))
        return joined_lines(names, self._pieces.arrays(), fillings, lines.pieces, lines.fillings, lines.holes)


def unrecorded(what: str, error: Exception) -> str:
    """Return a sentence about what could not be written."""
    return f"{what} could not be written ({type(error).__name__}: {str(error)[:200]})."


def _placed(tensors_of: Iterable[Iterable[ObservedTensor]]) -> list[ObservedTensor]:
    """Return the tensors of a step, each once and in the order in which records show them, with their places."""
    tensors: list[ObservedTensor] = []
    for tensor in chain.from_iterable(tensors_of):
        if not 0 <= tensor.place < len(tensors) or tensors[tensor.place] is not tensor:
            tensor.place = len(tensors)
            tensors.append(tensor)
    return tensors


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
