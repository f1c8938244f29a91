"""Joining pieces of text into the entries of tensors and the lines of records, without the interpreter's lock.

Text is a buffer of bytes and the places where its pieces begin, the end of the last one included.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

SKETCH_CHARACTERS = 43  # of 32 bytes in base64 without padding
ABSENT = -(1 << 62)  # a number that an entry does not have
_LONGEST_ENTRY = 512  # bytes of a tensor's entry besides its beginning: four numbers, a sketch, keys
_COMMA, _MINUS, _ZERO, _QUOTE, _CLOSE = b',-0"}'


def _bytes(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


_MIN, _MEAN, _NORM = _bytes(',"Min":'), _bytes(',"Mean":'), _bytes(',"Norm":')
_NEEDS_GRADIENT, _NEEDS_NONE = _bytes(',"requires_grad":true'), _bytes(',"requires_grad":false')
_CHECKSUM, _ZEROS, _SKETCH, _FROM = _bytes(',"md5":"'), _bytes(',"zero":'), _bytes(',"sketch":"'), _bytes(',"from":')
_HEXADECIMAL = _bytes("0123456789abcdef")
_SEPARATOR = _bytes(",\n")


@njit(nogil=True, cache=True)
def number_starts(text: Any, numbers: int) -> Any:
    """Return where each number of a JSON list begins, and where one after the last would."""
    starts = np.empty(numbers + 1, np.int64)
    starts[0] = 1
    found = 1
    for place in range(text.size):
        if text[place] == _COMMA:
            starts[found] = place + 1
            found += 1
    starts[numbers] = text.size
    return starts


@njit(nogil=True, cache=True)
def tensor_entries(
    begins: Any, begin_starts: Any, numbers: Any, number_places: Any, sketches: Any, columns: Any
) -> tuple[Any, Any]:
    """Return the entries of tensors as text.

    A row of `columns` is a tensor: which of `begins` its entry has, its row of four numbers and of a sketch, whether
    it needs a gradient, checksum, number of zeros, origin. What is `ABSENT` is left out; without numbers the beginning
    is the whole entry.
    """
    count = columns.shape[0]
    starts = np.zeros(count + 1, np.int64)
    size: Any = 0
    for tensor in range(count):
        begin = columns[tensor, 0]
        size += begin_starts[begin + 1] - begin_starts[begin] + _LONGEST_ENTRY
    text = np.empty(size, np.uint8)
    end: Any = 0
    for tensor in range(count):
        begin, row, sketch, needs, checksum, zeros, origin = columns[tensor]
        end = _put(text, end, begins, begin_starts[begin], begin_starts[begin + 1])
        if row != ABSENT:
            end = _put_number(text, end, numbers, number_places, 4 * row)
            end = _put_number(text, _put(text, end, _MIN, 0, _MIN.size), numbers, number_places, 4 * row + 1)
            end = _put_number(text, _put(text, end, _MEAN, 0, _MEAN.size), numbers, number_places, 4 * row + 2)
            end = _put_number(text, _put(text, end, _NORM, 0, _NORM.size), numbers, number_places, 4 * row + 3)
            if needs:
                end = _put(text, end, _NEEDS_GRADIENT, 0, _NEEDS_GRADIENT.size)
            else:
                end = _put(text, end, _NEEDS_NONE, 0, _NEEDS_NONE.size)
            if checksum != ABSENT:
                end = _put_checksum(text, _put(text, end, _CHECKSUM, 0, _CHECKSUM.size), checksum)
            if zeros != ABSENT:
                end = _put_integer(text, _put(text, end, _ZEROS, 0, _ZEROS.size), zeros)
            if sketch != ABSENT:
                end = _put(text, end, _SKETCH, 0, _SKETCH.size)
                end = _put(text, end, sketches[sketch], 0, SKETCH_CHARACTERS)
                text[end] = _QUOTE
                end += 1
            if origin != ABSENT:
                end = _put_integer(text, _put(text, end, _FROM, 0, _FROM.size), origin)
            text[end] = _CLOSE
            end += 1
        starts[tensor + 1] = end
    return text[:end], starts


@njit(nogil=True, cache=True)
def joined_lines(
    names: Any,
    name_starts: Any,
    pieces: Any,
    piece_starts: Any,
    fillings: Any,
    filling_starts: Any,
    used_pieces: Any,
    used_fillings: Any,
    holes: Any,
) -> Any:
    """Return lines with `,` between them: a name, a piece, and for each hole a filling and another piece."""
    size: Any = names.size + 2 * holes.size
    for piece in used_pieces:
        size += piece_starts[piece + 1] - piece_starts[piece]
    for filling in used_fillings:
        size += filling_starts[filling + 1] - filling_starts[filling]
    text = np.empty(size, np.uint8)
    end: Any = 0
    at_piece, at_filling = 0, 0
    for line in range(holes.size):
        if line:
            end = _put(text, end, _SEPARATOR, 0, _SEPARATOR.size)
        end = _put(text, end, names, name_starts[line], name_starts[line + 1])
        piece = used_pieces[at_piece]
        at_piece += 1
        end = _put(text, end, pieces, piece_starts[piece], piece_starts[piece + 1])
        for _ in range(holes[line]):
            filling, piece = used_fillings[at_filling], used_pieces[at_piece]
            at_filling += 1
            at_piece += 1
            end = _put(text, end, fillings, filling_starts[filling], filling_starts[filling + 1])
            end = _put(text, end, pieces, piece_starts[piece], piece_starts[piece + 1])
    return text[:end]


@njit(nogil=True, cache=True)
def _put(text: Any, end: int, source: Any, first: int, last: int) -> int:
    """Append a part of a source; return the new end."""
    size, target, begin = np.uint64(last - first), np.uint64(end), np.uint64(first)  # below zero is no place
    for place in range(size):
        text[target + place] = source[begin + place]
    return end + last - first


@njit(nogil=True, cache=True)
def _put_number(text: Any, end: int, numbers: Any, starts: Any, number: int) -> int:
    return int(_put(text, end, numbers, starts[number], starts[number + 1] - 1))


@njit(nogil=True, cache=True)
def _put_integer(text: Any, end: int, value: int) -> int:
    if value < 0:
        text[end] = _MINUS
        end, value = end + 1, -value
    digits, rest = 1, value // 10
    while rest:
        digits, rest = digits + 1, rest // 10
    for place in range(digits):
        text[end + digits - 1 - place] = _ZERO + value % 10
        value //= 10
    return end + digits


@njit(nogil=True, cache=True)
def _put_checksum(text: Any, end: int, checksum: int) -> int:
    for place in range(8):
        text[end + place] = _HEXADECIMAL[(checksum >> (28 - 4 * place)) & 15]
    text[end + 8] = _QUOTE
    return end + 9
