"""The zoo through the check: run as a program, it prints a table.

    python -m tests.check.recorded_zoo [--device D] [--tf32] [--dtypes float32,bfloat16]

Every animal trains a step in float32, bfloat16 and float16; each call of the step is checked from its record, with
the recorded values and with drawn ones.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import msgspec
import torch
from torch.nn import functional as F

from tests.support.zoo import ZOO, Animal, Training
from torchparity.check.cases import Case, cases_of
from torchparity.check.checking import Checked, check_case
from torchparity.check.judging import Status
from torchparity.config import CaptureConfig
from torchparity.recording.session import Session
from torchparity.recording.writing.memory_output import MemoryOutput

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def recorded(animal: Animal, dtype: torch.dtype) -> list[Case]:
    """Return the calls of the second step of a training in a dtype."""
    training = Training(animal)
    training.model.to(dtype)
    output = MemoryOutput(task="tensor", level="L1", rank=0)
    session = Session(CaptureConfig(task="tensor", level="L1"), output=output)
    try:
        _step(training, dtype)
        session.start(training.model)
        _step(training, dtype)
        session.step()
        part = output.take()
        assert part is not None
        return list(cases_of(part))
    finally:
        session.close(None)


def _step(training: Training, dtype: torch.dtype) -> None:
    inputs, labels = training.animal.batch()
    inputs = inputs.to(dtype) if inputs.is_floating_point() else inputs
    training.optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=training.animal.autocast):
        loss = F.cross_entropy(training.model(inputs), labels)
    loss.backward()
    training.optimizer.step()


def checked_zoo(dtype: torch.dtype, data: str, device: str = "cpu") -> Iterator[Checked]:
    """Yield every call of the zoo, checked."""
    for animal in ZOO.values():
        try:
            cases = recorded(animal, dtype)
        except (RuntimeError, NotImplementedError):  # a model that does not train in this dtype here
            continue
        for case in cases:
            yield check_case(case if data == "real" else without_values(case), torch.device(device))


def without_values(case: Case) -> Case:
    """Return a case as a run with task statistics has it."""

    def change(record):
        return record and record.replace_tensors(
            lambda _, leaf: msgspec.structs.replace(leaf, data_name=None, stored_in=None)
        )

    return Case(case.name, case.api, case.operator, change(case.forward), change(case.backward), case.part)


def report(dtype: torch.dtype, data: str, device: str) -> str:
    """Return a line of numbers, and a line for each API that failed or was never judged."""
    checked = list(checked_zoo(dtype, data, device))
    apis = {each.case.api for each in checked}
    judged = {each.case.api for each in checked if each.result.status is not Status.SKIP}
    lines = [
        f"{str(dtype).removeprefix('torch.'):9} {data:7} {len(checked):5} calls {len(apis):4} APIs "
        f"{len(judged) / len(apis):6.1%} judged "
        + " ".join(f"{sum(e.result.status is status for e in checked)} {status}" for status in Status)
    ]
    shown: set[str] = set()
    for each in checked:
        bad = each.result.status in (Status.ERROR, Status.WARNING) or each.case.api not in judged
        if bad and each.case.api not in shown:
            shown.add(each.case.api)
            lines.append(f"    {each.result.status} {each.result.name}: {each.result.message[:220]}")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tf32", action="store_true", help="let float32 products use TF32")
    parser.add_argument("--dtypes", default=",".join(str(dtype).removeprefix("torch.") for dtype in DTYPES))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.tf32:
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    else:
        torch.backends.cudnn.allow_tf32 = False
    for kind in (getattr(torch, name) for name in asked.dtypes.split(",")):
        for data in ("real", "random"):
            print(report(kind, data, asked.device), flush=True)
