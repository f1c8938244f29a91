"""One call run alone, on a device and in float64: the door for who asks of it something else than the check does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchparity.calls import attempted
from torchparity.check.cases import CannotRun, Case, reason_to_skip
from torchparity.check.execution import Results, device_named, perform
from torchparity.check.execution.precision import reference_way
from torchparity.check.execution.running import first_line, run
from torchparity.naming import RecordName
from torchparity.ops import function_called
from torchparity.records import Record
from torchparity.storage import RunPart

__all__ = ["Alone", "device_named", "run_alone"]


@dataclass(frozen=True)
class Side:
    """Outputs, arguments that were written, and gradients of the arguments, each by its place; on the CPU."""

    outputs: Mapping[str, Any]
    written: Mapping[str, torch.Tensor]
    gradients: Mapping[str, torch.Tensor | None]


@dataclass(frozen=True)
class Alone:
    """Results of a call on a device and in float64.

    `is_real` is False where arguments were drawn at random. `is_narrowed` is True where an argument is no longer
    finite in the dtype that autocast gives it on the way in.
    """

    device: Side
    truth: Side
    is_real: bool
    is_narrowed: bool


def run_alone(
    name: RecordName, forward: Record, backward: Record | None, part: RunPart, device: torch.device
) -> Alone | str:
    """Run a recorded call again; return why it cannot be run where it cannot."""
    case = Case(f"{name.family}.{name.call}", name.family, name.operator, forward, backward, part)
    function = function_called(case.api)
    reason = reason_to_skip(case, function)
    if reason is not None or function is None:
        return reason or f"this torch has no {case.api}"
    try:
        performed = perform(case, function, device)
    except CannotRun as cannot:
        return str(cannot)
    way = reference_way(case, performed.call.arguments)
    if way.raised is not None:  # float32 has no more range than bfloat16
        way = replace(way, raised=torch.float64)
    truth = attempted(lambda: run(performed.call, way))
    if isinstance(truth, Exception):
        return f"float64 raised {first_line(truth)}"
    arguments = performed.call.arguments
    given = [each.tensor for each in arguments.inputs() if each.tensor.is_floating_point()]
    is_narrowed = case.uses_autocast and not all(bool(torch.isfinite(tensor).all()) for tensor in given)
    return Alone(_side(performed.device), _side(truth), arguments.is_real, is_narrowed)


def _side(results: Results) -> Side:
    return Side(results.outputs, results.written, results.gradients)
