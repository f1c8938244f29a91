"""The texts of a step's tensors, from the rows that were measured: compiled, for nearly every one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from operator import attrgetter
from typing import NamedTuple

import msgspec
import numpy as np
import torch

from torchparity.calls import attempted
from torchparity.kernels import row
from torchparity.kernels.arenas import MeasuredRows
from torchparity.kernels.texts import ABSENT, COLUMNS, Numbers, Text, entries_of_rows
from torchparity.recording.measuring.geometry import name_of
from torchparity.recording.measuring.observed import ObservedTensor
from torchparity.recording.measuring.pending import fill
from torchparity.recording.step.pieces import Pieces

_measured = attrgetter("measurement", "layout", "source")
_row = attrgetter("measurement.row")
_dtype_and_shape = attrgetter("dtype", "shape")
_needs_gradient = attrgetter("requires_grad")
_origin = attrgetter("source.number")


class _Begins(dict[tuple[torch.dtype, tuple[int, ...]], int]):
    """The beginning of an entry for each dtype and shape, by its number among pieces of text."""

    def __init__(self, pieces: Pieces) -> None:
        super().__init__()
        self._pieces = pieces

    def __missing__(self, key: tuple[torch.dtype, tuple[int, ...]]) -> int:
        dtype, shape = key
        fields = {"type": "torch.Tensor", "dtype": name_of(dtype), "shape": shape}
        number = self[key] = self._pieces.add(msgspec.json.encode(fields)[:-1] + b',"Max":')
        return number


class PreparedTensors(NamedTuple):
    """Tensors whose text follows from a row, unless their numbers are not finite, and what is known of it already."""

    tensors: Sequence[ObservedTensor]
    places: Numbers  # of them among the tensors of the step
    columns: Numbers  # as `loops.tensor_entries` asks for them


class TensorTexts:
    """Encodes the tensors of each step of a recording; what steps have in common is kept."""

    def __init__(self) -> None:
        self._pieces = Pieces()
        self._begins = _Begins(self._pieces)

    def prepared(self, tensors: Sequence[ObservedTensor]) -> PreparedTensors:
        """Return what is known of the tensors of a step before their rows are."""
        if self._pieces.are_many():
            self._begins.clear()
            self._pieces.clear()
        _give_origins(tensors)
        may_have_rows = [
            measurement is not None and layout is None and source is not None
            for measurement, layout, source in map(_measured, tensors)
        ]
        these = tensors if all(may_have_rows) else list(compress(tensors, may_have_rows))
        columns = np.full((len(these), COLUMNS), ABSENT)
        columns[:, 0] = list(map(self._begins.__getitem__, map(_dtype_and_shape, these)))
        columns[:, 3] = list(map(_needs_gradient, these))
        columns[:, 6] = list(map(_origin, these))
        return PreparedTensors(these, np.flatnonzero(may_have_rows), columns)

    def of_step(
        self, tensors: Sequence[ObservedTensor], prepared: PreparedTensors, rows: MeasuredRows
    ) -> tuple[Text, dict[int, Exception]]:
        """Return the text of each tensor, and by its place why one has none."""
        columns = np.full((len(tensors), COLUMNS), ABSENT)
        have_rows = np.zeros(len(tensors), np.bool_)
        of_tensor = np.fromiter(map(_row, prepared.tensors), np.int64, len(prepared.tensors))
        has_row = of_tensor >= 0
        places = prepared.places[has_row]
        have_rows[places] = True
        columns[places] = _with_rows(prepared.columns[has_row], of_tensor[has_row], rows)
        failures: dict[int, Exception] = {}
        with self._pieces.for_a_while():
            for place in np.flatnonzero(~have_rows).tolist():  # few, and mostly none
                entry = attempted(_whole_entry, tensors[place], rows)
                if isinstance(entry, Exception):
                    failures[place], entry = entry, b""
                columns[place, 0] = self._pieces.add(entry)
            texts = entries_of_rows(rows, self._pieces.arrays(), columns)
        return texts, failures


def _with_rows(columns: Numbers, of_tensor: Numbers, rows: MeasuredRows) -> Numbers:
    """Fill in the columns of tensors that follow from their rows."""
    columns[:, 1] = of_tensor
    has_sketch = rows.counts[of_tensor] > 1
    columns[has_sketch, 2] = of_tensor[has_sketch]
    if rows.checksums is not None:
        columns[:, 4] = rows.checksums[of_tensor]
    zeros = rows.rows[of_tensor, row.ZEROS].astype(np.int64)
    columns[:, 5] = np.where(has_sketch & (zeros == 0), ABSENT, zeros)  # a sketch says that counts left out are 0
    return columns


def _give_origins(tensors: Iterable[ObservedTensor]) -> None:
    """Give origins their numbers in the order in which tensors are shown."""
    for tensor in tensors:
        source = tensor.source
        if source is not None and source.number is None:
            source.origin()


def _whole_entry(tensor: ObservedTensor, rows: MeasuredRows) -> bytes:
    """Return the text of a tensor that a row does not tell."""
    if tensor.measurement is not None:
        fill(tensor.measurement, rows)
    return bytes(tensor.encoded())
