"""Lineage: which records, parameters or outside data the content of each storage comes from.

A storage's content at one version has one `Source`, shared by all observed tensors that show it: nothing is
done for each item of a record. Sources refer to no draft, tensor or storage; storages are found by their
address, which `StorageGenerations` pins, and those that are still alive when a step ends keep their
source, whose records are then those of an earlier step.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import torch

from torchparity.recording.measuring.geometry import may_change_unseen
from torchparity.recording.measuring.tensor_names import TensorNames
from torchparity.storage import OriginTable

_MOST_PARTS = 8
_UNKNOWN = "unknown"


class Source(msgspec.Struct, eq=False, gc=False):
    """A producer of content, or several; `table` is that of the step in which it is used."""

    text: str
    table: OriginTable
    is_record: bool = False
    is_base: bool = False  # a name or uninitialised memory, which stays true when a part is written
    parts: tuple[Source, ...] = ()
    number: int | None = None  # of a record its position in the file, given when the step ends

    def origin(self) -> int:
        """Return the number that the file has for it; call it when the step is over."""
        if self.number is None:
            parts = self.parts
            self.number = self.table.number(tuple([part.told() for part in parts]) if parts else (self.told(),))
        return self.number

    def told(self) -> str:
        """Return the text of a single producer; of a record that never came into the file nobody can tell."""
        return _UNKNOWN if self.is_record and self.number is None else self.text


class Lineage:
    """Sources by the address of the storage, and the version at which each is true; changes need the cache's lock."""

    def __init__(self) -> None:
        self.sources: dict[int, Source] = {}
        self.versions: dict[int, int] = {}
        self.names = TensorNames()
        self.is_blind = False  # calls are made between those that are seen
        self._begin_step()

    def _begin_step(self) -> None:
        self.table = OriginTable()
        self.outside, self.unknown = Source("outside", self.table), Source(_UNKNOWN, self.table)
        self.uninitialised = Source("uninitialised", self.table, is_base=True)
        self.may_be_gradient = self.may_be_anything = False  # what is seen for the first time
        self.names.forget()

    def record(self, name: str) -> Source:
        """Return the source of what a record makes."""
        return Source(name, self.table, True)

    def trace(
        self, tensor: torch.Tensor, storage: torch.UntypedStorage, version: int, maker: Source | None = None
    ) -> Source:
        """Return the source of a tensor: known, or made or written by `maker`, or told by what is seen of it."""
        address = storage._cdata
        known = self.sources.get(address)
        if known is not None and self.versions.get(address) == version:
            return known
        if known is None:
            source = maker or self._found(tensor, storage, address)
        elif maker is None:
            source = self.join(known, self.unknown)
        else:
            source = self._after_write(known, maker, tensor, storage)
        self.sources[address], self.versions[address] = source, version
        return source

    def write(
        self, tensor: torch.Tensor, storage: torch.UntypedStorage, version: int, writer: Source, *, surely: bool
    ) -> None:
        """Note that a tensor was, or without `surely` may have been, written; this is its version after that."""
        known = self.sources.get(storage._cdata) or self._found(tensor, storage, storage._cdata)
        source = self._after_write(known, writer, tensor, storage) if surely else self.join(known, writer)
        self.sources[storage._cdata], self.versions[storage._cdata] = source, version

    def exposed(self, source: Source) -> Source:
        """Return the source of memory that may be written unseen at any time."""
        return self.unknown if source.text == "outside" else self.join(source, self.unknown)

    def join(self, *sources: Source) -> Source:
        """Return several sources as one, in order, each once; of too many a name and the newest."""
        parts: dict[str, Source] = {}
        for source in sources:
            if source.parts:
                for part in source.parts:
                    parts[part.text] = part
            else:
                parts[source.text] = source
        several = tuple(parts.values())
        if len(several) == 1:
            return several[0]
        if len(several) > _MOST_PARTS:
            first = several[:1] if several[0].is_base else ()
            several = first + several[len(first) - _MOST_PARTS :]
        return Source("", self.table, parts=several)

    def end_step(self, step: int) -> None:
        """Turn the records of this step, which have their numbers, into records of an earlier one."""
        self._begin_step()
        singles: dict[Source, Source] = {}
        earlier: dict[Source, Source] = {}
        for address, source in self.sources.items():
            now = earlier.get(source)
            if now is None:
                parts = [singles.get(part) or self._earlier(part, step, singles) for part in source.parts]
                now = earlier[source] = (
                    self._several(parts) if parts else singles.get(source) or self._earlier(source, step, singles)
                )
            self.sources[address] = now

    def _earlier(self, source: Source, step: int, singles: dict[Source, Source]) -> Source:
        """Return a single source as a later step has it, and keep it in `singles`."""
        if source.is_record and source.number is not None:
            now = Source(f"step{step} {source.text}", self.table)
        else:
            now = Source(source.told(), self.table, is_base=source.is_base)
        singles[source] = now
        return now

    def _several(self, parts: Sequence[Source]) -> Source:
        """Return single sources as one; nearly always a name and who wrote it last."""
        if len(parts) == 2 and parts[0].text != parts[1].text:
            return Source("", self.table, parts=tuple(parts))
        return self.join(*parts)

    def _after_write(
        self, known: Source, writer: Source, tensor: torch.Tensor, storage: torch.UntypedStorage
    ) -> Source:
        """Return the source after a write: of all that was there a name remains, or everything where a part was."""
        if tensor.nbytes != storage.nbytes():
            return self.join(known, writer)
        if not known.parts and not known.is_base:
            return writer
        names = [part for part in known.parts or (known,) if part.is_base and part.text != "uninitialised"]
        if not names:
            return writer
        return self._several([*names, writer]) if writer.is_record else self.join(*names, writer)

    def _found(self, tensor: torch.Tensor, storage: torch.UntypedStorage, address: int) -> Source:
        """Return the source of a tensor that is seen for the first time and that no seen call made."""
        names = self.names.find(tensor, address)
        if names:
            return self.join(*(Source(name, self.table, is_base=True) for name in names[:_MOST_PARTS]))
        if isinstance(tensor, torch.nn.Parameter):
            return Source("parameter", self.table, is_base=True)
        may_be_made = (
            self.is_blind
            or self.may_be_anything
            or (self.may_be_gradient and tensor.is_floating_point())
            or torch._C._current_graph_task_id() != -1
        )
        is_known = tensor.is_leaf and not tensor.is_inference() and not may_be_made
        return self.outside if is_known and not may_change_unseen(storage) else self.unknown
