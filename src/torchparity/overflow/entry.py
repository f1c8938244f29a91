"""The way in: the parts of a run, or a forward_info, in; a report of every call that overflowed out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torchparity.check.alone import device_named, run_alone
from torchparity.errors import ParityError
from torchparity.naming import call_of, flatten
from torchparity.overflow.suspects import Sign, Suspect, suspects_of
from torchparity.overflow.verdict import Finding, Verdict, joined, judge_all
from torchparity.overflow.wording import detail, headline
from torchparity.records import LEAF_TYPES, TensorLeaf
from torchparity.storage import RunPart
from torchparity.tensors.torch_tensors import to_torch

__all__ = ["Overflow", "Verdict", "device_named", "overflows_of"]


@dataclass(frozen=True)
class Overflow:
    """One call that overflowed, with its verdict; `reason` says why there is none."""

    name: str  # "Torch.matmul.0", or "Torch.matmul.0.backward"
    step: int
    rank: int
    verdict: Verdict | None
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    remark: str = ""
    stack: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the sentences for people: the verdict, then where and by how much."""
        if self.verdict is None:
            return [f"The {self.name} overflow cannot be judged: {self.reason.rstrip('.')}."]
        kept = [finding for finding in self.findings if finding.verdict is self.verdict] or self.findings
        details = [] if self.verdict is Verdict.NONE else [f"  {detail(finding)}" for finding in kept]
        lines = [headline(self.name, self.verdict), *details]
        lines += [f"  {self.remark}"] if self.remark else []
        return lines + [f"  {' '.join(frame.split())}" for frame in self.stack[:1]]

    def to_json(self) -> dict[str, Any]:
        """Return the report for programs."""
        fields = [
            {
                "place": each.place,
                "dtype": each.dtype,
                "verdict": each.verdict.value,
                "elements": each.count,
                "of": each.total,
                "first": None if each.first is None else list(each.first),
                "largest_true": None if math.isnan(each.largest) else each.largest,
                "limit": each.limit,
                "saturated": each.is_saturated,
            }
            for each in self.findings
        ]
        return {
            "name": self.name,
            "step": self.step,
            "rank": self.rank,
            "verdict": None if self.verdict is None else self.verdict.value,
            "tensors": fields,
            "reason": self.reason or None,
            "remark": self.remark or None,
            "stack": list(self.stack),
        }


def overflows_of(parts: Iterable[RunPart], device: torch.device) -> Iterator[Overflow]:
    """Yield every overflow of some parts of a run, judged; a call that does not overflow here is left out."""
    for part in parts:
        for suspect in suspects_of(part):
            found = _judged(suspect, part, device)
            if found.verdict is not Verdict.NONE or suspect.sign is not Sign.UNKNOWN:
                yield found


def _judged(suspect: Suspect, part: RunPart, device: torch.device) -> Overflow:
    name, stack = _shown_name(suspect), tuple(part.stack_of(suspect.forward.name))
    alone = run_alone(suspect.name, suspect.forward, suspect.backward, part, device)
    if isinstance(alone, str):
        return Overflow(name, part.step, part.rank, None, reason=alone, stack=stack)
    is_flagged = suspect.sign is Sign.FLAGGED
    recorded = _recorded(suspect, part) if alone.is_real else {}
    if suspect.backward is not None:
        rerun, truth = alone.device.gradients, alone.truth.gradients
    else:
        rerun, truth = {**alone.device.outputs}, {**alone.truth.outputs}
    findings = judge_all("output", recorded or rerun, truth, is_flagged=is_flagged)
    if suspect.backward is None and not recorded:
        findings += judge_all("input", alone.device.written, alone.truth.written, is_flagged=is_flagged)
    verdict = joined(findings, is_flagged=is_flagged and bool(recorded))
    remarks = [] if alone.is_real else ["judged with random data in the recorded range; record values to be sure."]
    if alone.is_narrowed:
        remarks.append("an argument is too large for the dtype that autocast gives it.")
    if verdict is Verdict.NONE:
        remarks = [f"it does not overflow again on {device} with {'these' if alone.is_real else 'random'} arguments."]
    remark = " ".join(remarks)
    return Overflow(name, part.step, part.rank, verdict, tuple(findings), remark=remark, stack=stack)


def _recorded(suspect: Suspect, part: RunPart) -> Mapping[str, torch.Tensor]:
    """Return what the device returned when it was recorded; nothing where its values were not kept."""
    record, values = suspect.record, dict[str, torch.Tensor]()
    sides = [*enumerate(record.output), *record.output_kwargs.items()]
    for key, nest in sides:
        for path, leaf in flatten(str(key), nest, LEAF_TYPES):
            if isinstance(leaf, TensorLeaf) and leaf.data_name is not None:
                try:
                    values[path] = to_torch(part.tensor(leaf))
                except ParityError:
                    return {}  # it is run again instead
    return values


def _shown_name(suspect: Suspect) -> str:
    return call_of(suspect.forward.name) if suspect.backward is None else suspect.backward.name
