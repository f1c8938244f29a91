"""Reading forward_info, backward_info and stack_info as if they were a part of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchparity.errors import DamagedFileError, RecordNameError, RunNotFoundError
from torchparity.naming import backward_of, forward_of_call
from torchparity.records import Record, RunInfo, StackGroup, TensorLeaf
from torchparity.storage.encoding.decode_any import MalformedError, record_from_json
from torchparity.storage.encoding.json_text import read_document
from torchparity.storage.formats import TensorSource, load_format
from torchparity.storage.info_files.info_writer import OWN_OUTPUT, REAL_DATA
from torchparity.storage.reading.layout import PartPath
from torchparity.storage.reading.part_files import PartContent
from torchparity.storage.reading.run_part import RunPart


class InfoPart(RunPart):
    """The calls of a forward_info as forward records, and those of a backward_info as backward records.

    Calls that cannot be read are in `problems`, a sentence each.
    """

    def __init__(self, forward: Path, backward: Path | None = None, real_data: Path | None = None) -> None:
        super().__init__(PartPath(0, 0, forward.parent))
        self._real_data = real_data or forward.parent
        damage: list[str] = []
        calls = dict(_records(forward, damage, is_backward=False))
        gradients = dict(_records(backward, damage, is_backward=True)) if backward is not None else {}
        of_gradients = {leaf.data_name for record in gradients.values() for leaf in record.tensors()}
        self._sources: dict[str, TensorSource] = {}
        self._folders = {name: "backward" for name in of_gradients if name is not None}
        has_values = any(leaf.data_name for record in calls.values() for leaf in record.tensors())
        task = "tensor" if has_values else "statistics"
        if any(record.output for record in calls.values()):
            task = "overflow_check"  # which alone writes them
        info = RunInfo(task=task, tool="api_accuracy_checker")
        self._content = PartContent(info, calls | gradients, damage=damage)
        self.stacks = _stacks(forward, damage)
        self.construct = {}

    def __repr__(self) -> str:
        return f"InfoPart({str(self.folder)!r}, {len(self.records)} records)"

    @property
    def is_complete(self) -> bool:
        """True: the files are written whole."""
        return True

    def _source(self, leaf: TensorLeaf) -> TensorSource:
        if leaf.data_name is None:
            return super()._source(leaf)  # which says that there are no values
        folder = REAL_DATA[self._folders.get(leaf.data_name, "forward")]
        if folder not in self._sources:
            self._sources[folder] = load_format("pt").source(self._real_data / folder)
        return self._sources[folder]


def open_info_files(
    forward: str | Path, backward: str | Path | None = None, *, real_data: str | Path | None = None
) -> InfoPart:
    """Open a forward_info, with its backward_info where one is given and the stack_info beside it.

    `real_data` is the folder that holds forward_real_data and backward_real_data, where they were moved.
    """
    if Path(forward).is_dir():
        wanted = "name the forward_info_0.json of a process in it, or a run with -api_info"
        raise RunNotFoundError(f"{forward} is a folder; {wanted}.")
    return InfoPart(
        Path(forward), None if backward is None else Path(backward), None if real_data is None else Path(real_data)
    )


def _records(path: Path, damage: list[str], *, is_backward: bool) -> Iterator[tuple[str, Record]]:
    document = read_document(path)
    kind = "backward_info: a JSON object of calls, each with a list" if is_backward else _FORWARD
    entries = document.items() if isinstance(document, dict) else ()
    if not isinstance(document, dict) or (document and not any(_fits(entry, is_backward) for _, entry in entries)):
        raise DamagedFileError(path, f"it is no {kind}")
    for call, entry in entries:
        try:
            if not _fits(entry, is_backward):
                raise MalformedError("it is not written as a call of such a file")
            forward = forward_of_call(call)
            name = backward_of(forward) if is_backward else forward
            yield name, record_from_json(name, _as_in_a_run(entry, is_backward))
        except (MalformedError, RecordNameError) as error:
            damage.append(f"{path}: the call {call[:120]!r} cannot be used: {error}")


_FORWARD = 'forward_info: a JSON object of calls, each with "args" and "kwargs"'


def _fits(entry: Any, is_backward: bool) -> bool:
    if is_backward:
        return isinstance(entry, list)
    return isinstance(entry, dict) and isinstance(entry.get("args"), list)


def _as_in_a_run(entry: Any, is_backward: bool) -> dict[str, Any]:
    if is_backward:
        return {"input": entry, "output": []}
    return {
        "input_args": entry["args"],
        "input_kwargs": entry.get("kwargs") or {},
        "output": entry.get(OWN_OUTPUT) or [],
    }


def _record_name(call: str) -> str:
    try:
        return forward_of_call(call)
    except RecordNameError:
        return call


def _stacks(forward: Path, damage: list[str]) -> list[StackGroup]:
    path = forward.with_name(forward.name.replace("forward_info", "stack_info"))
    if path == forward or not path.is_file():
        return []
    try:
        document = read_document(path)
    except DamagedFileError as error:
        damage.append(str(error))
        return []
    entries = document.items() if isinstance(document, dict) else ()
    return [
        StackGroup([_record_name(call)], [str(frame) for frame in frames])
        for call, frames in entries
        if isinstance(frames, list)
    ]
