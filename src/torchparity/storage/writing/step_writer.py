"""Writing one step: its records are lines of a journal while it lasts and dump.json when it ends.

dump.json is written under a temporary name and renamed, then the journal goes. A killed
process therefore loses at most the step in hand, and most of that can be read from the
journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from torchparity.errors import InternalError, RunWriteError
from torchparity.records import Location, Record, RunInfo, StackGroup, TensorLeaf
from torchparity.storage.encoding.encode import EncodedLeaves, EncodedRecord, leaf_to_json, record_to_json
from torchparity.storage.encoding.json_text import encode, encode_bare
from torchparity.storage.formats import TensorFormat, TensorSink
from torchparity.storage.reading.layout import JOURNAL, TENSOR_FOLDER
from torchparity.storage.shared_tensor import SharedTensor
from torchparity.version import __version__
from torchparity.whole_file import whole_file


class StepWriter:
    """The files of the step in hand; used by the writer's thread alone."""

    def __init__(self, folder: Path, info: RunInfo, tensor_format: TensorFormat) -> None:
        self.folder, self._info, self._format = folder, info, tensor_format
        # dump.json comes last: where it is, the step is whole.
        self._lines: dict[str, list[bytes]] = {"debug.json": [], "dump.json": []}
        self._left_out: list[str] = []
        self._sink: TensorSink | None = None
        self._leaves = EncodedLeaves()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._journal = (folder / JOURNAL).open("xb")
        except FileExistsError:
            raise RunWriteError(folder, "another process records there as the same rank") from None
        self._journal.write(encode(self._head()) + b"\n")

    def add(self, record: Record, tensors: Mapping[str, SharedTensor], *, skip: bool) -> None:
        placed = _place(record, {item: self.store(record.item_name(item), tensors[item]) for item in tensors})
        try:
            entry = self._entry(placed)
        except (TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
            if not skip:
                raise
            self._left_out.append(f"{record.name[:200]} could not be written ({str(error)[:200]}).")
            return
        self.add_encoded(EncodedRecord(record.name, record.direction, entry))

    def add_encoded(self, record: EncodedRecord) -> None:
        name, entry = encode(record.name), record.entry
        self._lines["debug.json" if record.direction == "debug" else "dump.json"].append(name + b": " + entry)
        self._journal.write(b'[%b, "%b", %b]\n' % (name, record.direction.encode(), entry))

    def leave_out(self, sentences: Iterable[str]) -> None:
        """Tell every reader of this step what it lacks."""
        self._left_out += sentences

    def flush(self) -> None:
        """Make what was added survive this process."""
        self._journal.flush()

    def finish(
        self,
        stacks: Iterable[StackGroup] | None,
        construct: Mapping[str, str | None] | None,
        missing: Iterable[str],
    ) -> None:
        if self._sink is not None:
            self._sink.close()
        if stacks is not None:
            groups = {str(index): [group.records, group.frames] for index, group in enumerate(stacks)}
            _write_whole(self.folder / "stack.json", _lines_of(groups))
        if construct is not None:
            _write_whole(self.folder / "construct.json", _lines_of(dict(construct)))
        for name, lines in self._lines.items():
            if lines or (name == "dump.json" and not self._lines["debug.json"]):
                head = encode(self._head([*missing, *self._left_out]))[:-1]
                _write_whole(self.folder / name, head + b', "data": {\n' + b",\n".join(lines) + b"\n}}\n")
        self._journal.close()
        (self.folder / JOURNAL).unlink()

    @property
    def records(self) -> int:
        """How many were added so far."""
        return sum(map(len, self._lines.values()))

    def suspend(self) -> None:
        """Keep an unfinished step as a journal, with the tensors that it has."""
        if self._sink is not None:
            self._sink.close()
        self._journal.close()

    def abandon(self) -> None:
        """Leave the journal for the reader and nothing half-written beside it."""
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

    def store(self, name: str, tensor: SharedTensor, crc32: Future[int] | None = None) -> tuple[str, Location | None]:
        """Store a tensor unless it is; return its data_name for this item, and where it is."""
        if tensor.place is not None:
            data_name, place = tensor.place
            return (data_name if place is None else f"{name}{self._format.suffix}"), place
        if tensor.values is None:
            raise InternalError(f"the values of {name} are gone and were never stored.")
        if tensor.ready is not None:
            tensor.ready()
        if self._sink is None:
            folder = self.folder / TENSOR_FOLDER
            folder.mkdir(exist_ok=True)
            self._sink = self._format.sink(folder)
        known = None if crc32 is None else crc32.result()
        tensor.place, tensor.values = self._sink.put(name, tensor.values, crc32=known), None
        return tensor.place

    def _head(self, missing: Iterable[str] = ()) -> dict[str, object]:
        tensors = self.folder / TENSOR_FOLDER
        own: dict[str, object] = {"version": __version__, "run_id": self._info.run_id}
        if self._info.tool:
            own["converted_from"] = self._info.tool
        if lines := list(missing):
            own["missing"] = lines
        return {
            "task": self._info.task,
            "level": self._info.level,
            "framework": self._info.framework,
            "dump_data_dir": str(tensors.absolute()) if self._sink else None,
            "torchparity": own,
        }


def _place(record: Record, places: Mapping[str, tuple[str, Location | None]]) -> Record:
    """Return the record with data_name and place filled in for the items that were stored."""

    def placed(name: str, leaf: TensorLeaf) -> TensorLeaf:
        if name not in places:
            return leaf
        data_name, stored_in = places[name]
        return msgspec.structs.replace(leaf, data_name=data_name, stored_in=stored_in)

    return record.replace_tensors(placed) if places else record


def _as_it_is(number: Any) -> Any:
    return number


def _lines_of(document: Mapping[str, object]) -> bytes:
    """Return strict JSON with one entry a line, so that a person can grep it."""
    lines = [encode(key) + b": " + encode(value) for key, value in document.items()]
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def _write_whole(path: Path, content: bytes) -> None:
    # A folder that somebody removed meanwhile is not created again: the step's tensors were in it.
    with whole_file(path, make_folder=False) as temporary:
        temporary.write_bytes(content)
