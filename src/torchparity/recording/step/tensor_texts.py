"""The texts of a step's tensors, from the rows that were measured: compiled, for nearly every one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import compress
from operator import attrgetter

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


class TensorTexts:
    """Encodes the tensors of each step of a recording; what steps have in common is kept."""

    def __init__(self) -> None:
        self._pieces = Pieces()
        self._begins = _Begins(self._pieces)

    def of_step(self, tensors: Sequence[ObservedTensor], rows: MeasuredRows) -> tuple[Text, dict[int, Exception]]:
        """Return the text of each tensor, and by its place why one has none."""
        if self._pieces.are_many():
            self._begins.clear()
            self._pieces.clear()
        _give_origins(tensors)
        columns = np.full((len(tensors), COLUMNS), ABSENT)
        others = _without_row(tensors)
        if not others:
            columns = self._columns(tensors, rows)
        else:
            have_rows = np.ones(len(tensors), np.bool_)
            have_rows[others] = False
            columns[have_rows] = self._columns(list(compress(tensors, have_rows)), rows)
        failures: dict[int, Exception] = {}
        with self._pieces.for_a_while():
            for tensor in map(tensors.__getitem__, others):
                entry = attempted(partial(_whole_entry, tensor, rows))
                if isinstance(entry, Exception):
                    failures[tensor.place], entry = entry, b""
                columns[tensor.place, 0] = self._pieces.add(entry)
            texts = entries_of_rows(rows, self._pieces.arrays(), columns)
        return texts, failures

    def _columns(self, tensors: Sequence[ObservedTensor], rows: MeasuredRows) -> Numbers:
        """Return a row for each tensor, as `tensor_entries` asks for it."""
        columns = np.full((len(tensors), COLUMNS), ABSENT)
        of_tensor = np.fromiter(map(_row, tensors), np.int64, len(tensors))
        columns[:, 0] = list(map(self._begins.__getitem__, map(_dtype_and_shape, tensors)))
        columns[:, 1] = of_tensor
        has_sketch = rows.counts[of_tensor] > 1
        columns[has_sketch, 2] = of_tensor[has_sketch]
        columns[:, 3] = list(map(_needs_gradient, tensors))
        if rows.checksums is not None:
            columns[:, 4] = rows.checksums[of_tensor]
        zeros = rows.rows[of_tensor, row.ZEROS].astype(np.int64)
        columns[:, 5] = np.where(has_sketch & (zeros == 0), ABSENT, zeros)  # a sketch says that counts left out are 0
        columns[:, 6] = list(map(_origin, tensors))
        return columns


def _without_row(tensors: Sequence[ObservedTensor]) -> list[int]:
    """Return the places of the tensors whose text does not follow from a row: few, and mostly none."""
    return [
        place
        for place, (measurement, layout, source) in enumerate(map(_measured, tensors))
        if measurement is None or measurement.row < 0 or layout is not None or source is None
    ]


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
