"""Texts that compiled code joins: the entries of tensors, from the rows that were measured, and lines of records."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from torchparity.kernels import row
from torchparity.kernels.measured_rows import MeasuredRows
from torchparity.kernels.numba_loops import texts as loops
from torchparity.kernels.numba_loops.texts import ABSENT
from torchparity.kernels.signs import packed_sums

__all__ = ["ABSENT", "COLUMNS", "NO_TEXT", "Numbers", "Text", "entries_of_rows", "joined_lines"]

Numbers = npt.NDArray[np.int64]
Text = tuple[npt.NDArray[np.uint8], Numbers]  # bytes, and where each piece begins and the last one ends
NO_TEXT: Text = np.empty(0, np.uint8), np.zeros(1, np.int64)
COLUMNS = 7
_SKETCH_BYTES, _BASE64 = 32, 33  # three bytes become four characters


def entries_of_rows(rows: MeasuredRows, begins: Text, columns: Numbers) -> Text:
    """Return the entry of each tensor, which `columns` describe as `loops.tensor_entries` says."""
    numbers = _numbers(rows)
    starts = loops.number_starts(numbers, 4 * len(rows))
    text, text_starts = loops.tensor_entries(*begins, numbers, starts, _sketches(rows), columns)
    return text, text_starts


def joined_lines(
    names: Text,
    pieces: Text,
    fillings: Text,
    pieces_used: Sequence[int],
    fillings_used: Sequence[int],
    holes: Sequence[int],
) -> memoryview:
    """Return lines, each a name, a piece, and for each of its holes a filling and another piece."""
    used = (np.array(column, np.int64) for column in (pieces_used, fillings_used, holes))
    text: npt.NDArray[np.uint8] = loops.joined_lines(*names, *pieces, *fillings, *used)
    return text.data


def _numbers(rows: MeasuredRows) -> npt.NDArray[np.uint8]:
    """Return Max, Min, Mean and Norm of each tensor as one JSON list; what is not finite there is not looked at."""
    sums = rows.rows
    numbers = np.empty((len(rows), 4))
    numbers[:, 0], numbers[:, 1] = sums[:, row.MAX], sums[:, row.MIN]
    numbers[:, 2], numbers[:, 3] = sums[:, row.SUM] / np.maximum(1, rows.counts), np.sqrt(sums[:, row.SQUARES])
    return np.frombuffer(msgspec.json.encode(numbers.ravel().tolist()), np.uint8)


def _sketches(rows: MeasuredRows) -> npt.NDArray[np.uint8]:
    """Return the sketch of each tensor in base64, a row of 44 characters each."""
    packed = np.frombuffer(packed_sums(rows.rows[:, row.SKETCH :], wide=False), np.uint8)
    padded = np.zeros((len(rows), _BASE64), np.uint8)
    padded[:, :_SKETCH_BYTES] = packed.reshape(len(rows), _SKETCH_BYTES)
    return np.frombuffer(b2a_base64(padded.tobytes(), newline=False), np.uint8).reshape(len(rows), _BASE64 // 3 * 4)
