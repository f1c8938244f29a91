"""A folder with everything about the calls that failed.

step0/rank0/dump.json     a run with the arguments that were used, which `torchparity check` runs again
scripts/NAME.py           a script for each call that shows the failure with torch alone; NAME.pt has its tensors.
                          Of several steps or ranks: scripts/step0.rank1.NAME.py
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import torch

from torchparity.check.execution import Performed, has_exact_inputs, is_exact
from torchparity.check.judging import Status
from torchparity.check.reproduction.failed_records import failed_records
from torchparity.check.reproduction.script import script_text
from torchparity.check.results import CaseResult
from torchparity.storage import RunWriter
from torchparity.whole_file import whole_file

_MOST_SAMPLES = 8


class ErrorData:
    """Writes the calls that failed into a folder, in place of those of an earlier check."""

    def __init__(self, folder: Path, device: str, *, has_many_parts: bool = False) -> None:
        self.folder, self._device, self._has_many_parts = folder, device, has_many_parts
        self._writers = {_rank_in(part): self._writer(_rank_in(part)) for part in folder.glob("step*/rank*")}
        self._steps: dict[int, int] = {}  # the step that each rank's writer is at

    def __enter__(self) -> ErrorData:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.__exit__(kind, error, trace)

    def add(self, result: CaseResult, performed: Performed) -> None:
        """Save one call: its records with all values, and its script; calls come in the order of the run."""
        writer = self._at(result.step, result.rank)
        for record, values in failed_records(performed):
            writer.add(record, values)
        if performed.reference.has_drawn:
            return  # its values are others every time; the run tells their distribution
        failed = [row.name for row in result.details if row.status is Status.ERROR]
        place = f"step{result.step}.rank{result.rank}." if self._has_many_parts else ""
        path = self.folder / "scripts" / f"{place}{result.name}.py"
        with whole_file(path) as temporary:
            temporary.write_text(script_text(result, performed, self._device), encoding="utf-8")
        with whole_file(path.with_suffix(".pt")) as temporary:
            torch.save(_tensors(performed, result.name, failed), temporary)

    def _writer(self, rank: int) -> RunWriter:
        return RunWriter(self.folder, task="tensor", level="L1", rank=rank, overwrite=True, skip_unwritable=True)

    def _at(self, step: int, rank: int) -> RunWriter:
        """Return the writer of a rank, at a step."""
        if rank not in self._writers:
            self._writers[rank] = self._writer(rank)
        writer = self._writers[rank]
        if self._steps.get(rank) != step:
            if rank in self._steps:
                writer.finish_step()
            writer.start_step(step)
            self._steps[rank] = step
        return writer


def _rank_in(folder: Path) -> int:
    number = folder.name.removeprefix("rank")
    return int(number) if number.isdecimal() else 0


def _tensors(performed: Performed, name: str, failed: list[str]) -> dict[str, object]:
    """Return what a script loads: arguments, gradients to start from, and results with rounding to hold errors to."""
    inputs = performed.call.arguments.inputs()
    seeds = performed.call.seeds
    return {
        "inputs": {given.path: given.tensor for given in inputs},
        "graded": [given.path for given in inputs if given.requires_grad and given.path in performed.device.gradients],
        "seeds": seeds.made() if seeds is not None else {},
        "writes": performed.call.writes,
        "rounded": {item.removeprefix(f"{name}."): _samples(performed, name, item) for item in failed},
        "exact": is_exact(performed.case, performed.call.arguments),  # outputs, to the last bit
    }


def _samples(performed: Performed, name: str, item: str) -> list[torch.Tensor]:
    """Return results with the tested dtype's rounding: the CPU's own, and the emulated ones."""
    samples = [performed.same_dtype] if performed.same_dtype is not None else []
    exact = ".forward." in item and has_exact_inputs(performed.case, performed.call.arguments)
    if performed.can_emulate:
        emulated = [performed.emulated(number, has_exact_inputs=exact) for number in range(_MOST_SAMPLES)]
        samples += [results for results in emulated if results is not None]
    found = (results.by_name().get(item.removeprefix(f"{name}.")) for results in samples)
    return [value for value in found if isinstance(value, torch.Tensor)]
