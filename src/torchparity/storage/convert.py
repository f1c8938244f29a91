"""Converting a run to another tensor format; every tensor is verified while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import msgspec

from torchparity.config import Level, Task
from torchparity.errors import ConfigError, DamagedFileError, ParityError, RunExistsError, RunNotFoundError
from torchparity.records import Record, TensorLeaf
from torchparity.storage.reading.layout import find_parts, remove_part
from torchparity.storage.reading.run_part import RunPart
from torchparity.storage.reading.run_reader import RunReader
from torchparity.storage.writing.run_writer import RunWriter
from torchparity.tensors import HostTensor


@dataclass
class Conversion:
    """The result of a conversion: counts of what was written, and a sentence for everything that could not be read."""

    records: int = 0
    tensors: int = 0
    problems: list[str] = field(default_factory=list)


def convert_run(run: RunReader, output: Path, tensor_format: str, *, overwrite: bool = False) -> Conversion:
    """Write every part of `run` below `output`; a tensor that is damaged loses its data, not its record.

    The new run names everything that is missing in it.
    """
    _refuse_same_folder(run, output)
    _make_room(output, overwrite)
    done = Conversion()
    for rank in run.ranks:
        parts = list(_readable([part for part in run.parts if part.rank == rank], done.problems))
        if not parts:
            continue
        info = parts[0].info
        with RunWriter(
            output,
            task=info.task if info.task in get_args(Task) else "statistics",
            level=info.level if info.level in get_args(Level) else "L1",
            rank=rank,
            tensor_format=tensor_format,
            converted_from=info.tool,
        ) as writer:
            for part in parts:
                _convert_part(part, writer, done)
    return done


def _readable(parts: list[RunPart], problems: list[str]) -> Iterator[RunPart]:
    """Yield one readable part per step; add a sentence to `problems` for every other part."""
    parts_by_step: dict[int, RunPart] = {}
    for part in parts:
        if part.step in parts_by_step:
            problems.append(
                f"{part.folder} is step {part.step} of rank {part.rank}, as is {parts_by_step[part.step].folder}."
            )
            continue
        try:
            _ = part.records
        except ParityError as error:
            problems.append(str(error))
            continue
        parts_by_step[part.step] = part
        yield part


def _convert_part(part: RunPart, writer: RunWriter, done: Conversion) -> None:
    problems = part.problems
    writer.start_step(part.step)
    for record in part.records.values() if part.info.task != "structure" else ():
        tensors = _tensors(part, record, problems)
        writer.add(_without_places(record), tensors)
        done.records += 1
        done.tensors += len(tensors)
    writer.finish_step(
        stacks=part.stacks,
        construct=part.construct,
        missing=problems,
        environment=part.info.environment,
        origins=part.origins,
    )
    done.problems += problems


def _refuse_same_folder(run: RunReader, output: Path) -> None:
    target, source = output.resolve(), run.path.resolve()
    folders = [part.folder.resolve() for part in run.parts]
    if target == source or source in target.parents or any(target in folder.parents for folder in folders):
        raise ConfigError(f"{output} holds the run that is to be converted, or lies inside it; choose another folder.")


def _make_room(output: Path, overwrite: bool) -> None:
    """Refuse a folder that holds a run; with `overwrite` remove that run completely, so that two runs do not mix."""
    try:
        old = find_parts(output)
    except RunNotFoundError:
        return
    if not overwrite:
        raise RunExistsError(output)
    for part in old:
        remove_part(part.folder, output)


def _tensors(part: RunPart, record: Record, problems: list[str]) -> dict[str, HostTensor]:
    values: dict[str, HostTensor] = {}
    for item in record.items():
        if isinstance(item.leaf, TensorLeaf) and item.leaf.data_name is not None:
            try:
                values[item.name] = part.tensor(item.leaf)
            except (DamagedFileError, RunNotFoundError) as error:
                problems.append(f"{record.item_name(item.name)}: {error}")
    return values


def _without_places(record: Record) -> Record:
    return record.replace_tensors(lambda _, leaf: msgspec.structs.replace(leaf, data_name=None, stored_in=None))
