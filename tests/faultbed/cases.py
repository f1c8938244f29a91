"""The cases of the bed: which fault at which strength in which model, and running one of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faultbed import arguments, heldout, models, operators, training
from tests.faultbed.answer import answer
from tests.faultbed.catalogue import Catalogue
from tests.faultbed.fault import Fault, Truth
from tests.faultbed.plant import ExactKernels
from tests.faultbed.program import Subject, Task, make_program, record
from tests.faultbed.truth import Resolved, differences, resolve

TASKS: tuple[Task, ...] = ("tensor", "statistics")
SUBJECTS = models.SUBJECTS | heldout.SUBJECTS
FAULTS = {fault.kind: fault for fault in (*operators.FAULTS, *arguments.FAULTS, *training.FAULTS, *heldout.FAULTS)}
HELD_OUT_KINDS = frozenset(fault.kind for fault in heldout.FAULTS)
# Their faults are compared with a baseline of other rounding, too: between them they have nearly every kind.
NOISY = ("qwen2", "bert", "cnn")


@dataclass(frozen=True)
class Case:
    """A fault of a kind and a strength in a subject."""

    subject: str
    kind: str
    strength: str
    amount: float

    @property
    def name(self) -> str:
        return f"{self.subject}/{self.kind}/{self.strength}"

    @property
    def is_held_out(self) -> bool:
        return self.subject in heldout.SUBJECTS or self.kind in HELD_OUT_KINDS

    @property
    def baselines(self) -> tuple[str, ...]:
        return ("plain", "noisy") if self.subject in NOISY and self.strength != "near" else ("plain",)


def baseline_path(folder: Path, subject: str, rounding: str, task: str) -> Path:
    return folder / "baselines" / subject / rounding / task


def run_path(folder: Path, name: str, task: str) -> Path:
    return folder / "runs" / name.replace(" ", "-") / task


def record_baselines(folder: Path, subject: Subject) -> None:
    """Record the subject without a fault, as it is and with other rounding; what is there stays."""
    for rounding in ("plain", "noisy") if subject.name in NOISY else ("plain",):
        for task in TASKS:
            path = baseline_path(folder, subject.name, rounding, task)
            if not (path / "done").exists():
                program = make_program(subject)
                if rounding == "noisy":
                    program.below.append(ExactKernels())
                record(program, path, task)
                (path / "done").touch()


def cases_of(folder: Path, subject: Subject) -> list[Case]:
    """Return the cases of a subject, held out or not: each fault that has a place in it."""
    catalogue = Catalogue(baseline_path(folder, subject.name, "plain", "tensor"))
    program = make_program(subject)
    return [
        Case(subject.name, fault.kind, strength, amount)
        for fault in FAULTS.values()
        if fault.places(catalogue, program)
        for strength, amount in _strengths(fault, subject)
    ]


def _strengths(fault: Fault, subject: Subject) -> Sequence[tuple[str, float]]:
    is_token = fault.kind == "one value of the data" and "input_ids" in make_program(subject).batches[0]
    return fault.strengths()[:1] if is_token else fault.strengths()


def run_case(folder: Path, case: Case) -> list[dict[str, Any]]:
    """Record the case, find its truth in the bits, compare it in both tasks; return a line for each comparison."""
    subject, fault = SUBJECTS[case.subject], FAULTS[case.kind]
    plain = baseline_path(folder, case.subject, "plain", "tensor")
    catalogue = Catalogue(plain)
    for task in TASKS:
        truth = _record(folder, case, subject, fault, catalogue, task)
    candidate = run_path(folder, case.name, "tensor")
    resolved = resolve(truth, differences(candidate, plain), catalogue, candidate, plain)
    lines = [_line(case, truth, resolved, task, rounding) for rounding in case.baselines for task in TASKS]
    return [compare_again(folder, line) for line in lines]


def _record(folder: Path, case: Case, subject: Subject, fault: Fault, catalogue: Catalogue, task: Task) -> Truth:
    program = make_program(subject)
    place = random.Random(case.name).choice(list(fault.places(catalogue, program)))
    truth = fault.plant(program, catalogue, place, case.amount)
    record(program, run_path(folder, case.name, task), task)
    return truth


def _line(case: Case, truth: Truth, resolved: Resolved, task: str, rounding: str) -> dict[str, Any]:
    return {
        "id": f"{case.name}/{rounding}/{task}",
        "model": case.subject,
        "kind": case.kind,
        "strength": case.strength,
        "task": task,
        "baseline": rounding,
        "held_out": case.is_held_out,
        "ulps": resolved.ulps,
        "truth_records": sorted(resolved.records),
        "truth_kinds": sorted(kind.value for kind in truth.kinds),
        "truth_step": truth.step,
        "first_in_bits": resolved.first,
        "confirmed": resolved.is_confirmed,
        "void": resolved.is_void,
    }


def compare_again(folder: Path, line: dict[str, Any]) -> dict[str, Any]:
    """Return a line with what comparing its recorded runs says now."""
    name = f"{line['model']}/{line['kind']}/{line['strength']}"
    candidate = run_path(folder, name, line["task"])
    baseline = baseline_path(folder, line["model"], line["baseline"], line["task"])
    told = answer(
        candidate, baseline, frozenset(line["truth_records"]), frozenset(line["truth_kinds"]), line["truth_step"]
    )
    return line | told
