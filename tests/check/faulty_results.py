"""Calls whose results on the device are changed before they are judged, as a wrong kernel would change them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.check.recorded_calls import recorded_cases
from torchparity.check.checking import judge_performed
from torchparity.check.execution import Results, perform
from torchparity.check.results import CaseResult
from torchparity.ops import function_called


def judged(work: Callable[[], object], name: str, fault: Callable[[Results], object] | None = None) -> CaseResult:
    """Record a function, run its call `name` again on the CPU, change the results by `fault`, and judge them."""
    case = recorded_cases(work)[name]
    function = function_called(case.api)
    assert function is not None
    performed = perform(case, function, torch.device("cpu"))
    if fault is not None:
        fault(performed.device)
    return judge_performed(case, performed)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def of_output(change: Callable[[torch.Tensor], torch.Tensor], place: str = "0") -> Callable[[Results], object]:
    """Return a fault of one output."""
    return lambda results: results.outputs.update({place: change(results.outputs[place])})


def scaled(by: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what multiplies a tensor, rounding once."""
    return lambda tensor: (tensor.double() * by).to(tensor.dtype)
