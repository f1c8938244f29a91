"""Rewriting a run in another tensor format, verified on the way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from torchparity.errors import ConfigError, DamagedFileError, RunNotFoundError
from torchparity.records import Record, TensorLeaf
from torchparity.storage._run_reader import RunPart, RunReader
from torchparity.storage._run_writer import RunWriter
from torchparity.tensors import HostTensor


@dataclass
class Conversion:
    """What was written, and one sentence for everything that could not be read."""

    records: int
    tensors: int
    problems: list[str]


def convert_run(run: RunReader, output: Path, tensor_format: str, *, overwrite: bool = False) -> Conversion:
    """Write every part of `run` below `output`; a tensor that is damaged loses its data, not its record."""
    _refuse_same_folder(run, output)
    done = Conversion(0, 0, [])
    for rank in run.ranks:
        parts = [part for part in run.parts if part.rank == rank]
        info = parts[0].info
        with RunWriter(
            output, task=info.task, level=info.level, rank=rank, tensor_format=tensor_format, overwrite=overwrite
        ) as writer:
            for part in parts:
                writer.start_step(part.step)
                for record in part.records.values():
                    tensors = _tensors(part, record, done)
                    writer.add(_without_places(record), tensors)
                    done.records += 1
                    done.tensors += len(tensors)
                writer.finish_step(stacks=part.stacks, construct=part.construct)
                done.problems += part.problems
    return done


def _refuse_same_folder(run: RunReader, output: Path) -> None:
    target = output.resolve()
    for part in run.parts:
        folder = part.folder.resolve()
        if target == folder or target in folder.parents:
            raise ConfigError(f"{output} holds the run that is to be converted; choose another folder.")


def _tensors(part: RunPart, record: Record, done: Conversion) -> dict[str, HostTensor]:
    found: dict[str, HostTensor] = {}
    for item in record.items():
        if isinstance(item.leaf, TensorLeaf) and item.leaf.data_name is not None:
            try:
                found[item.name] = part.tensor(item.leaf)
            except (DamagedFileError, RunNotFoundError) as error:
                done.problems.append(str(error))
    return found


def _without_places(record: Record) -> Record:
    return record.replace_tensors(lambda _, leaf: msgspec.structs.replace(leaf, data_name=None, stored_in=None))
