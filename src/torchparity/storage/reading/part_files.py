"""The record files of one part, read as far as possible, with a sentence for everything that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from torchparity.errors import DamagedFileError
from torchparity.records import Record, RunInfo, StackGroup, TensorLeaf
from torchparity.storage.encoding.decode_any import MalformedError
from torchparity.storage.encoding.decode_fast import QuickDecoder, quick_entries
from torchparity.storage.encoding.json_text import decode, read_document, salvage_data
from torchparity.storage.files.untrusted import read_file
from torchparity.storage.reading.data_flow import DataFlow
from torchparity.storage.reading.layout import JOURNAL, is_finished
from torchparity.storage.reading.ptdbg import read_pkl
from torchparity.text import counted

_LONGEST_TEXT = 300  # of a name or a value of the environment
_MOST_ENTRIES = 200


class PartContent(msgspec.Struct):
    """The content of a part's record files.

    `missing` are the sentences of the writer about what it left out; `damage` has one for everything that cannot be
    read, and `has_lost_records` tells that some of it is records. With `has_gaps` lost records may lie between
    others, and not only behind the last that could be read.
    """

    info: RunInfo
    records: dict[str, Record] = msgspec.field(default_factory=dict)
    stacks: list[StackGroup] | None = None  # ptdbg keeps them with the records
    flow: DataFlow = msgspec.field(default_factory=DataFlow)
    missing: list[str] = msgspec.field(default_factory=list)
    damage: list[str] = msgspec.field(default_factory=list)
    has_lost_records: bool = False
    has_gaps: bool = False


def read_part(folder: Path, pkl: Path | None) -> PartContent:
    """Read dump.json and debug.json, else the journal, else ptdbg's .pkl."""
    if pkl is not None:
        records, stacks, damage = read_pkl(pkl)
        has_values = pkl.with_suffix("").is_dir()
        if not has_values:
            records = {name: record.replace_tensors(_without_data) for name, record in records.items()}
        info = RunInfo(task="tensor" if has_values else "statistics", tool="ptdbg_ascend")
        return PartContent(info, records, stacks, damage=damage)
    if not is_finished(folder):
        return _from_journal(folder)
    content, is_first = PartContent(RunInfo()), True
    for path in (folder / name for name in ("dump.json", "debug.json")):
        if path.is_file():
            head, entries, is_whole = _document(path, content.damage)
            if is_first:
                is_first = False
                content.info = _run_info(head)
                content.flow = DataFlow(entries if path.name == "dump.json" else (), head.get("origins"))
            content.missing += _missing(head)
            records = _records(entries, path, content.damage, debug=path.name == "debug.json")
            has_unusable = len(records) < len(entries)
            content.has_lost_records |= has_unusable or not is_whole
            content.has_gaps |= has_unusable
            content.records |= records
    return content


def read_stacks(path: Path, problems: list[str]) -> list[StackGroup]:
    """Return the call stacks of a stack.json; empty where none were written."""
    return [StackGroup(names, frames) for names, frames in _stack_entries(_optional(path, problems))]


def read_construct(folder: Path, problems: list[str]) -> dict[str, str | None]:
    """Return each record's parent from construct.json; empty where none was written."""
    path = folder / "construct.json"
    content = _optional(path, problems)
    if not isinstance(content, dict):
        problems += [] if content is None else [f"{path}: it has no records and what they are inside of."]
        return {}
    return {str(name): _parent(value) for name, value in content.items()}


def _without_data(_: str, leaf: TensorLeaf) -> TensorLeaf:
    return msgspec.structs.replace(leaf, data_name=None)


def _document(path: Path, problems: list[str]) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """Return the head of a file of records, its records, and whether the file is whole."""
    content = read_file(path)
    if (quick := quick_entries(content)) is not None:
        return (*quick, True)
    try:
        document = decode(content, path)
    except DamagedFileError as error:
        head, entries = salvage_data(content, path)
        problems.append(f"{error} {counted(len(entries), 'record')} before the damage could be read.")
        return head, entries, False
    if not isinstance(document, dict) or not isinstance(document.get("data"), dict):
        raise DamagedFileError(path, "it has no object 'data' with records")
    return document, document["data"], True


def _from_journal(folder: Path) -> PartContent:
    """Recover what a killed process had recorded of its last step."""
    path = folder / JOURNAL
    *whole, rest = read_file(path).split(b"\n")
    head: dict[str, Any] = {}
    records: dict[str, Record] = {}
    problems: list[str] = []
    has_gaps = False
    for number, line in enumerate(whole, 1):
        try:
            entry = decode(line, path)
            if number == 1:
                head = entry if isinstance(entry, dict) else {}
            else:
                name, direction, record = entry
                usable = _records({str(name): record}, path, problems, debug=direction == "debug")
                records |= usable
                has_gaps |= not usable
        except (DamagedFileError, ValueError, TypeError):
            problems.append(f"{path}: line {number} is damaged and was skipped.")
            has_gaps = True
    lost = "; the last one is cut off" if rest else ""
    recovered = f"{counted(len(records), 'record')} of it could be recovered"
    problems.append(f"{folder}: the recording ended before this step did; {recovered}{lost}.")
    info = _run_info(head) if head else RunInfo(task="unknown", level="unknown")
    return PartContent(info, records, damage=problems, has_lost_records=has_gaps, has_gaps=has_gaps)


def _records(entries: dict[str, Any], path: Path, problems: list[str], *, debug: bool) -> dict[str, Record]:
    records: dict[str, Record] = {}
    decoder = QuickDecoder(path)
    for name, entry in entries.items():
        try:
            records[name] = decoder.record(name, entry, debug=debug)
        except (MalformedError, DamagedFileError) as error:
            problems.append(f"{path}: record {name[:120]!r} cannot be used: {error}.")
    return records


def _optional(path: Path, problems: list[str]) -> Any:
    if not path.is_file():
        return None
    try:
        return read_document(path)
    except DamagedFileError as error:
        problems.append(str(error))
        return None


def _stack_entries(content: Any) -> Iterator[tuple[list[str], list[str]]]:
    for entry in content.values() if isinstance(content, dict) else ():
        if isinstance(entry, list) and len(entry) == 2 and all(isinstance(part, list) for part in entry):
            yield [str(name) for name in entry[0]], [str(frame) for frame in entry[1]]


def _parent(value: Any) -> str | None:
    """Return the parent's name; newer msprobe writes a list whose first entry it is."""
    if isinstance(value, list):
        value = value[0] if value else None
    return value if isinstance(value, str) else None


def _own(head: dict[str, Any]) -> dict[str, Any]:
    own = head.get("torchparity")
    return own if isinstance(own, dict) else {}


def _run_info(head: dict[str, Any]) -> RunInfo:
    own, folder = _own(head), head.get("dump_data_dir")
    tool = own.get("converted_from") or (f"torchparity {own['version']}" if "version" in own else "msprobe")
    return RunInfo(
        task=str(head.get("task", "unknown")),
        level=str(head.get("level", "unknown")),
        framework=str(head.get("framework", "pytorch")),
        dump_data_dir=folder if isinstance(folder, str) and "\0" not in folder else None,
        tool=str(tool),
        run_id=str(own["run_id"]) if "run_id" in own else None,
        environment=_environment(own.get("environment")),
        has_every_call=own.get("every_call") is True,
    )


def _environment(entries: Any) -> dict[str, str]:
    """Return what is text under a text; a file that nobody vouches for may hold anything here."""
    known = entries.items() if isinstance(entries, dict) else ()
    texts = [(name[:_LONGEST_TEXT], value[:_LONGEST_TEXT]) for name, value in known if isinstance(value, str)]
    return dict(texts[:_MOST_ENTRIES])


def _missing(head: dict[str, Any]) -> list[str]:
    """Return what the writer knew to be missing, so that a copy does not look more complete than its source."""
    sentences = _own(head).get("missing")
    return [str(sentence)[:300] for sentence in sentences] if isinstance(sentences, list) else []
