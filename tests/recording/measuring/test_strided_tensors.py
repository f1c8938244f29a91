"""Strided tensors: an arena that reads them in place records what one that is given copies does."""

from __future__ import annotations

import ctypes

import msgspec
import numpy as np
import torch
from torch.nn import functional

from torchparity import open_run
from torchparity.kernels.arenas.host import HostArena
from torchparity.kernels.layouts import layout_of
from torchparity.recording import capture


class _InPlace(HostArena):
    """A host arena that reads strided tensors by their layout, at the latest when it is flushed."""

    read = 0

    def layout_of(self, dtype, shape, stride, address):
        return layout_of(shape, stride, 1)

    def add(self, tensor, address, count, dtype, owner, layout=None):
        if layout is not None:
            _InPlace.read += 1
            self.__dict__.setdefault("later", []).append((len(self._queue), layout))
        super().add(tensor, address, count, dtype, owner)

    def flush(self):
        for place, layout in self._taken_later():
            entry = self._queue[place]
            values = _gathered(entry.address, entry.elements, layout)
            self._queue[place] = entry._replace(address=values.ctypes.data, tensor=values)
        super().flush()

    def _taken_later(self):
        return self.__dict__.pop("later", [])


def _gathered(address, count, layout):
    """Return the elements in their order, found as a kernel finds them."""
    word, place = 2**32, np.arange(count, dtype=np.int64)
    runs = (place * layout[0] // word + place) >> layout[1]
    rows = (runs * layout[2] // word + runs) >> layout[3]
    planes = (rows * layout[4] // word + rows) >> layout[5]
    found = (place + runs * layout[6] + rows * layout[7] + planes * layout[8]) % word
    memory = (ctypes.c_char * (4 * (int(found.max()) + 1))).from_address(address)
    return np.ascontiguousarray(np.frombuffer(memory, np.float32)[found])


def attend(folder):
    torch.manual_seed(0)
    weight = torch.randn(8, 24, requires_grad=True)
    with capture(folder, task="statistics", level="L1"):
        heads = torch.randn(2, 5, 8).matmul(weight).view(2, 5, 3, 2, 4)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        query = query.clone(memory_format=torch.preserve_format)
        query.add_(1)  # what it was before is measured first
        mixed = functional.scaled_dot_product_attention(query, key, value)
        mixed.transpose(1, 2).exp().sum().backward()
    records = open_run(folder).part().records
    return [msgspec.structs.replace(record, seconds=None) for record in records.values()]


def test_what_is_read_in_place_is_what_was_copied(tmp_path, monkeypatch):
    copied = attend(tmp_path / "copied")
    monkeypatch.setattr("torchparity.kernels.arenas.host.HostArena", _InPlace)
    monkeypatch.setattr(_InPlace, "read", 0)

    in_place = attend(tmp_path / "in_place")

    assert _InPlace.read > 5
    assert in_place == copied
