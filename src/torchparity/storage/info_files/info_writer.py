"""Writing forward_info, backward_info and stack_info."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from torchparity.naming import call_of, forward_of, is_module_name
from torchparity.records import Leaf, Nest, Record, TensorLeaf
from torchparity.storage.encoding.encode import leaf_to_json, nest_to_json
from torchparity.storage.encoding.json_text import encode
from torchparity.storage.formats import load_format
from torchparity.storage.reading.run_reader import RunPart
from torchparity.whole_file import whole_file

REAL_DATA = {"forward": "forward_real_data", "backward": "backward_real_data"}
OWN_OUTPUT = "output"  # the key of what a call returned, which api_accuracy_checker does not have


class InfoWriter:
    """Writes the files of one process; each `add` writes them anew, so that they are whole at any time."""

    def __init__(self, folder: Path, process: int, *, real_data: bool, outputs: bool = False) -> None:
        self._folder, self._process, self._real_data, self._outputs = folder, process, real_data, outputs
        self._calls: dict[str, dict[str, Any]] = {"forward": {}, "backward": {}, "stack": {}}

    @property
    def forward(self) -> Path:
        """The file of the calls."""
        return self._file("forward")

    @property
    def backward(self) -> Path:
        """The file of the gradients."""
        return self._file("backward")

    @property
    def counts(self) -> tuple[int, int]:
        """The number of calls, and of those with gradients."""
        return len(self._calls["forward"]), len(self._calls["backward"])

    def add(self, part: RunPart) -> None:
        """Write the calls of one more step; the first call of a name stays."""
        earlier = set(self._calls["forward"])
        frames = {name: group.frames for group in part.stacks for name in group.records}
        for record in part.records.values():
            if is_module_name(record.name) or record.direction not in REAL_DATA or record.error is not None:
                continue
            call = call_of(forward_of(record.name))
            if call in earlier or call in self._calls[record.direction]:
                continue  # a call of a later step, or a second backward through one
            placed = self._with_values(record, part)
            if record.direction == "backward":
                self._calls["backward"][call] = _json(placed.input_args)
            else:
                self._calls["forward"][call] = self._entry(placed)
                self._calls["stack"][call] = frames.get(record.name, [])
        for kind, entries in self._calls.items():
            with whole_file(self._file(kind)) as temporary:
                temporary.write_bytes(msgspec.json.format(encode(entries), indent=1))

    def _entry(self, record: Record) -> dict[str, Any]:
        entry = {"args": _json(record.input_args), "kwargs": _json(record.input_kwargs)}
        return entry | ({OWN_OUTPUT: _json(record.output)} if self._outputs else {})

    def _file(self, kind: str) -> Path:
        return self._folder / f"{kind}_info_{self._process}.json"

    def _with_values(self, record: Record, part: RunPart) -> Record:
        """Return the record with the names of its values' files, which are written here."""
        if not self._real_data:
            return record.replace_tensors(_without_values)
        folder = self._folder / REAL_DATA[record.direction]
        folder.mkdir(exist_ok=True)
        sink = load_format("pt").sink(folder)

        def written(item: str, leaf: TensorLeaf) -> TensorLeaf:
            if leaf.data_name is None or (item.startswith("output") and not self._outputs):
                return _without_values(item, leaf)
            # Processes share the folder.
            data_name, _ = sink.put(f"{record.item_name(item)}.{self._process}", part.tensor(leaf, verify=False))
            return msgspec.structs.replace(leaf, data_name=data_name, stored_in=None)

        return record.replace_tensors(written)


def write_info_files(
    folder: Path, process: int, parts: Iterable[RunPart], *, real_data: bool, outputs: bool = False
) -> InfoWriter:
    """Write the calls of some parts of a run; return who wrote them."""
    writer = InfoWriter(folder, process, real_data=real_data, outputs=outputs)
    for part in parts:
        writer.add(part)
    return writer


def _without_values(item: str, leaf: TensorLeaf) -> TensorLeaf:
    return msgspec.structs.replace(leaf, data_name=None, stored_in=None)


def _json(nest: Nest | Sequence[Nest] | Mapping[str, Nest]) -> Any:
    return nest_to_json(nest, _leaf_json)


def _leaf_json(leaf: Leaf) -> Any:
    """Return a leaf without what serves the comparison of runs alone."""
    if isinstance(leaf, TensorLeaf):
        statistics = leaf.statistics and msgspec.structs.replace(leaf.statistics, sketch=None)
        leaf = msgspec.structs.replace(leaf, origin=None, statistics=statistics)
    return leaf_to_json(leaf)
