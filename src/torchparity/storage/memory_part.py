"""A part of a run in this process's memory: what a step recorded, for whoever reads it before it is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from torchparity.errors import NotRecordedError
from torchparity.records import Record, RunInfo, StackGroup, TensorLeaf
from torchparity.storage.encoding.origins import OriginTable
from torchparity.storage.files.stored_tensor import MappedTensor, StoredTensor
from torchparity.storage.reading.data_flow import DataFlow
from torchparity.storage.reading.layout import PartPath
from torchparity.storage.reading.part_files import PartContent
from torchparity.storage.reading.run_part import RunPart
from torchparity.storage.writing.shared_tensor import SharedTensor
from torchparity.tensors import DTYPES, HostTensor
from torchparity.version import __version__

_NOWHERE = Path("memory")


class MemoryPart(RunPart):
    """The records of one rank in one step, without a folder: nothing of it is ever on disk."""

    def __init__(
        self,
        step: int,
        rank: int,
        info: RunInfo,
        records: Iterable[tuple[Record, Mapping[str, SharedTensor]]],
        *,
        stacks: Sequence[StackGroup] = (),
        construct: Mapping[str, str | None] | None = None,
        origins: OriginTable | None = None,
        missing: Iterable[str] = (),
    ) -> None:
        super().__init__(PartPath(step, rank, _NOWHERE))
        self._values = _MemorySource()
        kept = {record.name: self._values.placed(record, values) for record, values in records}
        in_file = [name for name, record in kept.items() if record.direction != "debug"]
        entries = origins.entries if origins is not None and origins.records == len(in_file) else None
        made_here = msgspec.structs.replace(info, tool=f"torchparity {__version__}")
        self._content = PartContent(made_here, kept, flow=DataFlow(in_file, entries), missing=list(missing))
        self.stacks = list(stacks)
        self.construct = dict(construct or {})

    def __repr__(self) -> str:
        return f"MemoryPart(step={self.step}, rank={self.rank})"

    @property
    def is_complete(self) -> bool:
        """True: it was made when its step had ended."""
        return True

    def release_values(self) -> None:
        """Let go of the values of all tensors; records and statistics stay."""
        self._values.clear()

    def _source(self, leaf: TensorLeaf) -> _MemorySource:
        return self._values


class _MemorySource:
    """Values of tensors by the data_name that stands for them; many items share one."""

    def __init__(self) -> None:
        self._tensors: dict[str, SharedTensor] = {}

    def placed(self, record: Record, values: Mapping[str, SharedTensor]) -> Record:
        """Keep the values of a record's items; return the record with their names."""
        if not values:
            return record
        names = {item: f"{_NOWHERE}-{id(tensor)}" for item, tensor in values.items()}
        self._tensors |= {names[item]: tensor for item, tensor in values.items()}

        def change(item: str, leaf: TensorLeaf) -> TensorLeaf:
            return msgspec.structs.replace(leaf, data_name=names[item]) if item in names else leaf

        return record.replace_tensors(change)

    def clear(self) -> None:
        self._tensors.clear()

    def read(self, leaf: TensorLeaf, *, verify: bool) -> HostTensor:
        return self.stored(leaf).map().tensor

    def stored(self, leaf: TensorLeaf) -> StoredTensor:
        shared = self._tensors.get(leaf.data_name or "")
        if shared is None or shared.values is None:
            raise NotRecordedError("values of", f"a {leaf.dtype} tensor", [], "this process's memory")
        if shared.ready is not None:
            shared.ready()
        raw = shared.values.raw()
        tensor = HostTensor(leaf.dtype, raw.view(DTYPES[leaf.dtype]).reshape(leaf.shape))  # views share their values
        return StoredTensor(None, None, _NOWHERE, "", lambda: MappedTensor(tensor, raw))

    def look(self, leaf: TensorLeaf) -> None:
        self.stored(leaf)
