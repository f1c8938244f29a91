"""One part of a run: the records of one rank in one step, with their call stacks, parent modules and tensors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torchparity.errors import (
    DamagedFileError,
    NotRecordedError,
    ParityError,
    RecordNameError,
    RunNotFoundError,
)
from torchparity.naming import Direction, parse_record
from torchparity.records import Origin, Record, RunInfo, StackGroup, TensorLeaf
from torchparity.storage.encoding.origins import OriginTable
from torchparity.storage.files.urls import UrlPath
from torchparity.storage.formats import TensorSource
from torchparity.storage.reading.layout import (
    TENSOR_FOLDER,
    PartPath,
    has_records,
    is_finished,
    ptdbg_files,
)
from torchparity.storage.reading.part_files import PartContent, read_construct, read_part, read_stacks
from torchparity.storage.reading.tensor_folder import TensorFolder
from torchparity.text import counted

if TYPE_CHECKING:
    from torchparity.storage.files.stored_tensor import StoredTensor
    from torchparity.tensors import HostTensor

_BATCH = 16  # tensors that a thread verifies before it hands them over


class RunPart:
    """The records of one rank in one step.

    `problems` has a sentence for everything that is missing or could not be read; what
    could be read is there all the same.
    """

    def __init__(self, where: PartPath) -> None:
        self.step, self.rank, self.folder, self._named_file = where.step, where.rank, where.folder, where.pkl
        self._has_lost_parents = False  # as far as that file was read

    def __repr__(self) -> str:
        return f"RunPart(step={self.step}, rank={self.rank}, folder={str(self.folder)!r})"

    @property
    def info(self) -> RunInfo:
        """The head of dump.json: task, level, the tool that wrote it."""
        return self._content.info

    @property
    def records(self) -> dict[str, Record]:
        """All records by name, in the order of the file; of a structure their names and directions alone."""
        return self._content.records or self._structure

    @cached_property
    def _structure(self) -> dict[str, Record]:
        if self.info.task != "structure":
            return {}
        return {name: Record(name=name, direction=_direction_of(name)) for name in self.construct}

    @property
    def problems(self) -> list[str]:
        """One sentence for each thing that is missing or damaged; reads everything but the tensors to find out."""
        return self._missing_here() + self._damage_of_records()

    @property
    def missing(self) -> list[str]:
        """Sentences about what the writer itself left out: a step that an exception ended, values without space."""
        return list(dict.fromkeys(self._content.missing))

    def _missing_here(self) -> list[str]:
        return [f"{self.folder}: {sentence}" for sentence in self.missing]

    def _damage_of_records(self) -> list[str]:
        _ = self.stacks, self.construct
        return list(dict.fromkeys(self._content.damage))

    @property
    def is_complete(self) -> bool:
        """False when the writing process ended before the step did."""
        try:
            return is_finished(self.folder) or self._pkl is not None
        except OSError:
            return True  # it may not be looked into, which is another problem

    @property
    def has_lost_records(self) -> bool:
        """True where a file of its records is damaged, and some are lost."""
        return self._content.has_lost_records

    @property
    def has_lost_parents(self) -> bool:
        """True where nobody knows what its records were inside of, since that file is damaged."""
        _ = self.construct
        return self._has_lost_parents

    @property
    def has_gaps(self) -> bool:
        """True where lost records may lie between others, and not only behind the last that could be read."""
        return self._content.has_gaps

    @property
    def is_remote(self) -> bool:
        """True where it lies on an object store, whose files are fetched instead of mapped."""
        return isinstance(self.folder, UrlPath)

    def record(self, name: str) -> Record:
        """Return a record by its name in any spelling."""
        try:
            wanted = str(parse_record(name))
        except RecordNameError:
            wanted = name
        for spelling in (name, wanted):
            if spelling in self.records:
                return self.records[spelling]
        alike = [recorded for recorded in self.records if name.lower() in recorded.lower()]
        raise NotRecordedError("record", name, alike or self.records, str(self.folder))

    @cached_property
    def stacks(self) -> list[StackGroup]:
        """Call stacks with the records called from each; empty where none were written."""
        if self._content.stacks is not None:
            return self._content.stacks
        return read_stacks(self.folder / "stack.json", self._content.damage)

    def use_stacks(self, path: Path) -> None:
        """Take the call stacks from another file than the one beside the records, where it exists."""
        if path.is_file():
            self.stacks = read_stacks(path, self._content.damage)
        else:
            self._content.damage.append(f"{path} does not exist; the call stacks are those beside the records.")

    def stack_of(self, name: str) -> list[str]:
        """Return the call stack of a record, innermost frame first; empty if there is none."""
        return next((group.frames for group in self.stacks if name in group.records), [])

    @cached_property
    def construct(self) -> dict[str, str | None]:
        """Each record's enclosing module record, or None at the top."""
        damage = self._content.damage
        before = len(damage)
        construct = read_construct(self.folder, damage)
        self._has_lost_parents = len(damage) > before
        return construct

    @property
    def tells_origins(self) -> bool:
        """True where the run tells which record made a tensor."""
        return self._content.flow.is_told

    def origins_of(self, leaf: TensorLeaf) -> tuple[Origin, ...]:
        """Return who made a tensor's content, several where parts were written; empty where the run does not tell."""
        return self._content.flow.origins(leaf.origin)

    @property
    def origins(self) -> OriginTable | None:
        """The meaning of the numbers of origins, for a copy of the run; None where it does not tell."""
        return self._content.flow.table()

    def tensor(self, leaf: TensorLeaf, *, verify: bool = True) -> HostTensor:
        """Return the values of a recorded tensor, mapped; `verify` checks them against their checksum."""
        return self._source(leaf).read(leaf, verify=verify)

    def stored(self, leaf: TensorLeaf) -> StoredTensor:
        """Return a recorded tensor, mapped but not checked, with the checksum its bytes should have."""
        return self._source(leaf).stored(leaf)

    def tensors(self) -> Iterator[tuple[str, TensorLeaf]]:
        """Yield every tensor that has data on disk, with its item's full name."""
        for record in self.records.values():
            for item in record.items():
                if isinstance(item.leaf, TensorLeaf) and item.leaf.data_name is not None:
                    yield record.item_name(item.name), item.leaf

    def values(self) -> Iterator[tuple[str, HostTensor]]:
        """Yield the values of every stored tensor, with its item's full name; verified on all cores, ahead of you."""
        for name, values in self._verified_values():
            if isinstance(values, ParityError):
                raise values
            yield name, values

    def look(self) -> list[str]:
        """Return a sentence for each thing that is plainly missing or damaged; reads no tensor's values."""
        return self._missing_here() + self.damage(deep=False)

    def verify(self) -> list[str]:
        """Read everything; return a sentence for each thing that is missing or damaged."""
        return self._missing_here() + self.damage(deep=True)

    def damage(self, *, deep: bool) -> list[str]:
        """Return a sentence for each thing that the writer wrote and nobody can read; `deep` reads every tensor."""
        return self._damage_of_records() + _grouped(self._damaged_values() if deep else self._missing_values())

    def _damaged_values(self) -> Iterator[tuple[str, ParityError]]:
        for name, read in self._verified_values():
            if isinstance(read, ParityError):
                yield name, read

    def _missing_values(self) -> Iterator[tuple[str, ParityError]]:
        for name, leaf in self.tensors():
            try:
                self._source(leaf).look(leaf)
            except (DamagedFileError, RunNotFoundError) as error:
                yield name, error

    def _verified_values(self) -> Iterator[tuple[str, HostTensor | ParityError]]:
        from concurrent.futures import ThreadPoolExecutor  # not loaded where no values are asked for

        named = list(self.tensors())
        batches = [named[first : first + _BATCH] for first in range(0, len(named), _BATCH)]
        pool = ThreadPoolExecutor(os.cpu_count())
        try:
            for batch, values in zip(batches, pool.map(self._read_batch, batches), strict=True):
                yield from zip((name for name, _ in batch), values, strict=True)
        finally:
            pool.shutdown(cancel_futures=True)  # the caller may have stopped asking

    def _read_batch(self, batch: list[tuple[str, TensorLeaf]]) -> list[HostTensor | ParityError]:
        values: list[HostTensor | ParityError] = []
        for _, leaf in batch:
            try:
                values.append(self.tensor(leaf))
            except (DamagedFileError, RunNotFoundError) as error:
                values.append(error)
        return values

    @cached_property
    def tensor_folder(self) -> Path:
        """The folder with the tensors: beside dump.json, else where dump.json says it was."""
        if self._pkl is not None:
            return self._pkl.with_suffix("")
        beside = self.folder / TENSOR_FOLDER
        if self.is_remote:
            return beside  # what a store's file says about this machine's folders is not followed
        if not beside.is_dir() and self.info.dump_data_dir and Path(self.info.dump_data_dir).is_dir():
            return Path(self.info.dump_data_dir)
        return beside

    @cached_property
    def tensor_files(self) -> TensorFolder:
        """The tensors of that folder."""
        return TensorFolder(self.tensor_folder)

    def release_files(self) -> None:
        """Close the files of tensors, whose pages count as memory; they are opened again when one is asked for."""
        if "tensor_files" in self.__dict__:
            self.tensor_files.release()

    def stored_bytes(self) -> int:
        """Return the size on disk of this part: records and tensors."""
        try:
            folders = {self.folder, self._pkl.with_suffix("") if self._pkl else self.folder / TENSOR_FOLDER}
            files = (file for folder in folders if folder.is_dir() for file in folder.iterdir())
            return sum(file.stat().st_size for file in files if file.is_file())
        except OSError:
            return 0  # what may not be looked into is said in `problems`

    def _source(self, leaf: TensorLeaf) -> TensorSource:
        if leaf.data_name is None:
            raise NotRecordedError("values of", f"a {leaf.dtype} tensor", [], f"{self.folder} (task {self.info.task})")
        return self.tensor_files.source_of(leaf)

    @cached_property
    def _pkl(self) -> Path | None:
        if has_records(self.folder):
            return None
        return self._named_file or next(iter(ptdbg_files(self.folder)), None)

    @cached_property
    def _content(self) -> PartContent:
        try:
            return read_part(self.folder, self._pkl)
        except OSError as error:
            raise DamagedFileError(error.filename or self.folder, f"it cannot be read ({error.strerror})") from None


def _direction_of(record: str) -> Direction:
    try:
        return parse_record(record).direction
    except RecordNameError:
        return "forward"  # a user's own prefix may be anything


def _grouped(failures: Iterable[tuple[str, ParityError]]) -> list[str]:
    """Return one sentence for each thing that is wrong: a file that is gone has thousands of tensors."""
    names: dict[str, list[str]] = {}
    for name, error in failures:
        names.setdefault(str(error), []).append(name)
    more = {
        error: f" and {counted(len(tensors) - 1, 'more tensor')}"
        for error, tensors in names.items()
        if len(tensors) > 1
    }
    return [f"{tensors[0]}{more.get(error, '')}: {error}" for error, tensors in names.items()]
