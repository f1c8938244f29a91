"""Reading a run: parts by step and rank, records, call stacks, module parents, tensors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from torchparity import plugins
from torchparity.errors import DamagedFileError, NotRecordedError, RecordNameError, RunNotFoundError
from torchparity.naming import parse_record
from torchparity.records import Record, RunInfo, StackGroup, TensorLeaf
from torchparity.storage import _ptdbg
from torchparity.storage._codec import MalformedError, record_from_json
from torchparity.storage._files import read_file
from torchparity.storage._formats import TensorFormat, TensorSource
from torchparity.storage._json import decode, read_document, salvage_data
from torchparity.storage._layout import JOURNAL, TENSOR_FOLDER, PartPath, find_parts
from torchparity.tensors import HostTensor


def open_run(path: str | Path) -> RunReader:
    """Open a run by its folder, a step or rank folder in it, or a dump.json, debug.json or .pkl file."""
    return RunReader(Path(path))


class RunReader:
    """A run on disk. Files are read when something of theirs is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts = [RunPart(part) for part in find_parts(path)]

    @property
    def steps(self) -> list[int]:
        return sorted({part.step for part in self.parts})

    @property
    def ranks(self) -> list[int]:
        return sorted({part.rank for part in self.parts})

    def part(self, step: int | None = None, rank: int | None = None) -> RunPart:
        """Return the part of a step and a rank; where one is left open, the first."""
        for part in self.parts:
            if step in (None, part.step) and rank in (None, part.rank):
                return part
        if step is not None and step not in self.steps:
            raise NotRecordedError("step", str(step), map(str, self.steps), str(self.path))
        raise NotRecordedError("rank", str(rank), map(str, self.ranks), str(self.path))


class RunPart:
    """What one rank recorded in one step.

    `problems` has a sentence for everything that could not be read; what could be read
    is there all the same.
    """

    def __init__(self, where: PartPath) -> None:
        self.step, self.rank, self.folder = where.step, where.rank, where.folder
        self._problems: list[str] = []
        self._sources: dict[str, TensorSource] = {}

    def __repr__(self) -> str:
        return f"RunPart(step={self.step}, rank={self.rank}, folder={str(self.folder)!r})"

    @property
    def info(self) -> RunInfo:
        return self._content[0]

    @property
    def records(self) -> dict[str, Record]:
        """All records by name, in the order of the file."""
        return self._content[1]

    @property
    def problems(self) -> list[str]:
        """One sentence for each thing that could not be read; reads the records to find out."""
        _ = self._content
        return list(self._problems)

    @property
    def is_complete(self) -> bool:
        """False when the writing process ended before the step did."""
        return any((self.folder / name).is_file() for name in ("dump.json", "debug.json")) or self._pkl is not None

    def record(self, name: str) -> Record:
        """Return a record by its name in any spelling."""
        try:
            wanted = str(parse_record(name))
        except RecordNameError:
            wanted = name
        for spelling in (name, wanted):
            if spelling in self.records:
                return self.records[spelling]
        raise NotRecordedError("record", name, self.records, str(self.folder))

    @cached_property
    def stacks(self) -> list[StackGroup]:
        """Call stacks with the records called from each; empty where none were written."""
        if self._pkl is not None:
            _ = self._content
            return self._ptdbg_stacks
        return [StackGroup(names, frames) for names, frames in self._stack_entries()]

    def stack_of(self, name: str) -> list[str]:
        """Return the call stack of a record, innermost frame first; empty if there is none."""
        return next((group.frames for group in self.stacks if name in group.records), [])

    @cached_property
    def construct(self) -> dict[str, str | None]:
        """Each record's enclosing module record, or None at the top."""
        content = self._optional("construct.json")
        if not isinstance(content, dict):
            return {}
        return {str(name): _parent(value) for name, value in content.items()}

    def tensor(self, leaf: TensorLeaf, *, verify: bool = True) -> HostTensor:
        """Return the values of a recorded tensor, mapped; `verify` checks them against their checksum."""
        if leaf.data_name is None:
            raise NotRecordedError(
                "tensor data for", f"{leaf.dtype} {list(leaf.shape)}", [], f"{self.folder} (task {self.info.task})"
            )
        kind = "safetensors" if leaf.stored_in else {".npy": "pkl"}.get(Path(leaf.data_name).suffix, "pt")
        if kind not in self._sources:
            tensor_format: TensorFormat = plugins.load("storage", kind)
            self._sources[kind] = tensor_format.source(self.tensor_folder)
        return self._sources[kind].read(leaf, verify=verify)

    def verify(self) -> list[str]:
        """Read everything; return a sentence for each thing that is missing or damaged."""
        found = self.problems
        for _, leaf in self.tensors():
            try:
                self.tensor(leaf)
            except (DamagedFileError, RunNotFoundError) as error:
                found.append(str(error))
        _ = self.stacks, self.construct
        return [*found, *(problem for problem in self._problems if problem not in found)]

    def tensors(self) -> Iterator[tuple[str, TensorLeaf]]:
        """Yield every tensor that has data on disk, with its item's full name."""
        for record in self.records.values():
            for item in record.items():
                if isinstance(item.leaf, TensorLeaf) and item.leaf.data_name is not None:
                    yield record.item_name(item.name), item.leaf

    @cached_property
    def tensor_folder(self) -> Path:
        """The folder with the tensors: beside dump.json, else where dump.json says it was."""
        if self._pkl is not None:
            return self._pkl.with_suffix("")
        beside = self.folder / TENSOR_FOLDER
        if not beside.is_dir() and self.info.dump_data_dir and Path(self.info.dump_data_dir).is_dir():
            return Path(self.info.dump_data_dir)
        return beside

    def stored_bytes(self) -> int:
        """Return the size on disk of this part: records and tensors."""
        own = sum(file.stat().st_size for file in self.folder.iterdir() if file.is_file())
        folder = self.tensor_folder
        return own + (sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) if folder.is_dir() else 0)

    @cached_property
    def _pkl(self) -> Path | None:
        if any((self.folder / name).is_file() for name in ("dump.json", "debug.json", JOURNAL)):
            return None
        return next(iter(sorted(self.folder.glob("*.pkl"))), None)

    @cached_property
    def _content(self) -> tuple[RunInfo, dict[str, Record]]:
        if self._pkl is not None:
            records, self._ptdbg_stacks, problems = _ptdbg.read_pkl(self._pkl)
            self._problems += problems
            has_data = self._pkl.with_suffix("").is_dir()
            return RunInfo(task="tensor" if has_data else "statistics", tool="ptdbg_ascend"), records
        found = [name for name in ("dump.json", "debug.json") if (self.folder / name).is_file()]
        if not found:
            return self._from_journal()
        info, records = RunInfo(), dict[str, Record]()
        for name in found:
            head, entries = self._document(self.folder / name)
            info = _run_info(head)
            records |= self._records(entries, self.folder / name, debug=name == "debug.json")
        return info, records

    def _document(self, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        content = read_file(path)
        try:
            document = decode(content, path)
        except DamagedFileError as error:
            head, entries = salvage_data(content, path)
            self._problems.append(f"{error} {len(entries)} records before the damage could be read.")
            return head, entries
        if not isinstance(document, dict) or not isinstance(document.get("data"), dict):
            raise DamagedFileError(path, "it has no object 'data' with records")
        return document, document["data"]

    def _from_journal(self) -> tuple[RunInfo, dict[str, Record]]:
        """Recover what a killed process had recorded of its last step."""
        path = self.folder / JOURNAL
        lines = read_file(path).split(b"\n")
        whole, rest = lines[:-1], lines[-1]
        head: dict[str, Any] = {}
        entries: dict[str, Any] = {}
        for number, line in enumerate(whole, 1):
            try:
                entry = decode(line, path)
                if number == 1:
                    head = entry if isinstance(entry, dict) else {}
                else:
                    entries[str(entry[0])] = entry[1]
            except (DamagedFileError, KeyError, IndexError, TypeError):
                self._problems.append(f"{path}: line {number} is damaged and was passed over.")
        lost = ", the last one cut off" if rest else ""
        self._problems.append(
            f"{self.folder}: the recording ended before this step did; {len(entries)} records were recovered{lost}."
        )
        return _run_info(head), self._records(entries, path, debug=False)

    def _records(self, entries: dict[str, Any], path: Path, *, debug: bool) -> dict[str, Record]:
        records: dict[str, Record] = {}
        for name, entry in entries.items():
            try:
                records[name] = record_from_json(name, entry, debug=debug)
            except MalformedError as error:
                self._problems.append(f"{path}: record {name[:120]!r} cannot be used: {error}.")
        return records

    def _optional(self, name: str) -> Any:
        path = self.folder / name
        if not path.is_file():
            return None
        try:
            return read_document(path)
        except DamagedFileError as error:
            self._problems.append(str(error))
            return None

    def _stack_entries(self) -> Iterator[tuple[list[str], list[str]]]:
        content = self._optional("stack.json")
        for entry in content.values() if isinstance(content, dict) else ():
            if isinstance(entry, list) and len(entry) == 2 and all(isinstance(part, list) for part in entry):
                yield [str(name) for name in entry[0]], [str(frame) for frame in entry[1]]


def _run_info(head: dict[str, Any]) -> RunInfo:
    own = head.get("torchparity")
    own = own if isinstance(own, dict) else {}
    folder = head.get("dump_data_dir")
    return RunInfo(
        task=str(head.get("task", "statistics")),
        level=str(head.get("level", "L1")),
        framework=str(head.get("framework", "pytorch")),
        dump_data_dir=folder if isinstance(folder, str) and "\0" not in folder else None,
        tool=f"torchparity {own['version']}" if "version" in own else "msprobe",
        run_id=str(own["run_id"]) if "run_id" in own else None,
    )


def _parent(value: Any) -> str | None:
    """Return the parent's name; newer msprobe writes a list whose first entry it is."""
    if isinstance(value, list):
        value = value[0] if value else None
    return value if isinstance(value, str) else None
