"""Writing one step: records that are added one by one go to a journal, and all to dump.json when the step ends.

dump.json is written under a temporary name and renamed, then the journal goes. A killed
process therefore loses at most the step in hand, and what was added one by one can be
read from the journal. A recording of statistics adds a whole step at once (`add_step`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from torchparity.errors import InternalError, RunWriteError
from torchparity.records import Location, Record, RunInfo, StackGroup, TensorLeaf
from torchparity.storage.encoding.encode import (
    UNENCODABLE,
    EncodedLeaves,
    EncodedRecord,
    EncodedStep,
    leaf_to_json,
    record_to_json,
)
from torchparity.storage.encoding.json_text import encode, encode_bare, encode_each
from torchparity.storage.encoding.origins import OriginTable
from torchparity.storage.formats import TensorFormat, TensorSink
from torchparity.storage.reading.layout import JOURNAL, TENSOR_FOLDER
from torchparity.storage.writing.shared_tensor import SharedTensor
from torchparity.storage.writing.space_limit import SpaceLimit
from torchparity.storage.writing.step_report import StepReport
from torchparity.text import counted
from torchparity.version import __version__
from torchparity.whole_file import whole_file

_Place = tuple[str, Location | None]  # an item's data_name, and where the bytes are
_JOURNAL_BUFFER = 1 << 20  # bytes; `flush` writes what is in it


class StepWriter:
    """The files of the current step; used only by the writer's thread."""

    def __init__(self, folder: Path, info: RunInfo, tensor_format: TensorFormat, space: SpaceLimit) -> None:
        self._folder, self._info, self._format, self._space = folder, info, tensor_format, space
        # dump.json comes last: where it is, the step is whole.
        self._lines: dict[str, list[bytes | memoryview]] = {"debug.json": [], "dump.json": []}
        self._records = dict.fromkeys(self._lines, 0)
        self._left_out: list[str] = []
        self._valueless = 0
        self._record_bytes = self._written = 0
        self._sink: TensorSink | None = None
        self._leaves = EncodedLeaves()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._journal = (folder / JOURNAL).open("xb", buffering=_JOURNAL_BUFFER)
        except FileExistsError:
            raise RunWriteError(folder, "another process records there as the same rank") from None
        self._journal.write(encode(self._head()) + b"\n")

    def add(self, record: Record, tensors: Mapping[str, SharedTensor], *, skip: bool) -> None:
        places = {item: self.store(record.item_name(item), tensor) for item, tensor in tensors.items()}
        stored = {item: place for item, place in places.items() if place is not None}
        self._valueless += len(places) - len(stored)
        try:
            entry = self._entry(_place(record, stored))
        except UNENCODABLE as error:
            if not skip:
                raise self._unwritable(error) from error
            self._left_out.append(f"{record.name[:200]} could not be written ({str(error)[:200]}).")
            return
        self.add_encoded([EncodedRecord(record.name, record.direction, entry)])

    def add_encoded(self, records: Sequence[EncodedRecord]) -> None:
        """Add records that are JSON already."""
        journal = []
        for name, record in zip(encode_each([record.name for record in records]), records, strict=True):
            entry, direction = record.entry, record.direction
            file = "debug.json" if direction == "debug" else "dump.json"
            self._lines[file].append(name + b": " + entry)
            self._records[file] += 1
            self._record_bytes += len(name) + len(entry)
            journal.append(b'[%b, "%b", %b]\n' % (name, direction.encode(), entry))
        self._journal.writelines(journal)

    def add_step(self, step: EncodedStep) -> None:
        """Add all records of the step, which are not in the journal: dump.json follows at once."""
        if step.records:
            self._lines["dump.json"].append(step.lines)
            self._records["dump.json"] += step.records
            self._record_bytes += len(step.lines)
        self.add_encoded(step.debug)

    def leave_out(self, sentences: Iterable[str]) -> None:
        """Tell every reader of this step what it lacks."""
        self._left_out += sentences

    def flush(self) -> None:
        """Flush the journal, so that the records survive a killed process."""
        self._journal.flush()

    def describe(self, stacks: Iterable[StackGroup] | None, construct: Mapping[str, str | None] | None) -> None:
        """Write where the calls came from and what they are inside of; no file for what is None."""
        if stacks is not None:
            groups = {str(index): [group.records, group.frames] for index, group in enumerate(stacks)}
            self._written += self._write_whole("stack.json", self._lines_of(groups))
        if construct is not None:
            self._written += self._write_whole("construct.json", self._lines_of(dict(construct)))

    def finish(
        self,
        missing: Iterable[str],
        environment: Mapping[str, str] | None = None,
        origins: OriginTable | None = None,
    ) -> StepReport:
        """Write the records; return the report on the step."""
        if environment is not None:
            self._info = msgspec.structs.replace(self._info, environment=dict(environment))
        if self._sink is not None:
            self._sink.close()
        written = self._written + (0 if self._sink is None else self._sink.stored_bytes)
        for name, lines in self._lines.items():
            if lines or (name == "dump.json" and not self._lines["debug.json"]):
                head = encode(self._head([*missing, *self._left_out, *self._without_values()]))[:-1]
                pieces = head, b', "data": {\n', b",\n".join(lines), b"\n}", self._tail(origins)
                written += self._write_whole(name, pieces)
        self._journal.close()
        (self._folder / JOURNAL).unlink(missing_ok=True)  # somebody may have removed the whole step
        records = sum(self._records.values())
        return StepReport(self._folder, records, written, tuple(self._left_out), self._valueless)

    def _tail(self, origins: OriginTable | None) -> bytes:
        """Return what follows the records: the origins, unless a record was left out and their numbers are wrong."""
        if origins is None or origins.records != self._records["dump.json"]:
            return b"}\n"
        return b', "origins": [\n' + b",\n".join(encode_each(origins.entries)) + b"\n]}\n"

    def _without_values(self) -> list[str]:
        if not self._valueless:
            return []
        return [f"the values of {counted(self._valueless, 'tensor')} were left out: {self._space.reason}."]

    def _write_whole(self, name: str, pieces: Sequence[bytes | memoryview]) -> int:
        """Write a file of this step; return its size."""
        # A folder that somebody removed meanwhile is not created again: the step's tensors were in it.
        with whole_file(self._folder / name, make_folder=False) as temporary, temporary.open("wb") as file:
            file.writelines(pieces)
        return sum(map(len, pieces))

    def _lines_of(self, document: Mapping[str, object]) -> tuple[bytes, ...]:
        """Return strict JSON with one entry a line, so that a person can grep it."""
        try:
            keys, values = encode_each(list(document)), encode_each(list(document.values()))
            lines = [key + b": " + value for key, value in zip(keys, values, strict=True)]
        except UNENCODABLE as error:
            raise self._unwritable(error) from error
        return b"{\n", b",\n".join(lines), b"\n}\n"

    def _unwritable(self, error: Exception) -> RunWriteError:
        return RunWriteError(self._folder, f"a record holds something that cannot be written ({error})")

    def suspend(self) -> None:
        """Keep an unfinished step as a journal, with the tensors that it has."""
        if self._sink is not None:
            self._sink.close()
        self._journal.close()

    def abandon(self) -> None:
        """Close the journal after a failure; a reader recovers the records from it."""
        if self._sink is not None:
            self._sink.abandon()
        with suppress(OSError):  # a full disk refuses the last lines
            self._journal.close()

    def _entry(self, record: Record) -> bytes:
        if self._format.bare_nan:
            return encode_bare(record_to_json(record, partial(leaf_to_json, number=_as_it_is)))
        try:
            return msgspec.json.encode(record_to_json(record, self._leaves))
        except UnicodeEncodeError:  # half a surrogate pair in a text
            return encode(record_to_json(record))

    def store(self, name: str, tensor: SharedTensor, crc32: Future[int] | None = None) -> _Place | None:
        """Store a tensor unless it is stored; return its data_name and location for an item, or None without space."""
        if tensor.place is not None:
            data_name, place = tensor.place
            return (data_name if place is None else f"{name}{self._format.suffix}"), place
        if tensor.is_left_out or not self._has_space(tensor.nbytes):
            tensor.leave_out()
            return None
        if tensor.values is None:
            raise InternalError(f"the values of {name} are gone and were never stored.")
        if tensor.ready is not None:
            tensor.ready()
        if self._sink is None:
            folder = self._folder / TENSOR_FOLDER
            folder.mkdir(exist_ok=True)
            self._sink = self._format.sink(folder)
        checksum = None if crc32 is None else crc32.result()
        tensor.place, tensor.values = self._sink.put(name, tensor.values, crc32=checksum), None
        return tensor.place

    def _has_space(self, nbytes: int) -> bool:
        stored, waiting = (0, 0) if self._sink is None else (self._sink.stored_bytes, self._sink.waiting_bytes)
        return self._space.admits(nbytes, step_bytes=self._record_bytes + stored, waiting_bytes=waiting)

    def _head(self, missing: Iterable[str] = ()) -> dict[str, object]:
        tensors = self._folder / TENSOR_FOLDER
        own: dict[str, object] = {"version": __version__, "run_id": self._info.run_id}
        if self._info.tool:
            own["converted_from"] = self._info.tool
        if self._info.has_every_call:
            own["every_call"] = True
        if self._info.environment:
            own["environment"] = self._info.environment
        if lines := list(missing):
            own["missing"] = lines
        return {
            "task": self._info.task,
            "level": self._info.level,
            "framework": self._info.framework,
            "dump_data_dir": str(tensors.absolute()) if self._sink else None,
            "torchparity": own,
        }


def _place(record: Record, places: Mapping[str, _Place]) -> Record:
    """Return the record with data_name and place filled in for the items that were stored."""

    def placed(name: str, leaf: TensorLeaf) -> TensorLeaf:
        if name not in places:
            return leaf
        data_name, stored_in = places[name]
        return msgspec.structs.replace(leaf, data_name=data_name, stored_in=stored_in)

    return record.replace_tensors(placed) if places else record


def _as_it_is(number: Any) -> Any:
    return number
