"""Running functions over all inputs of a dtype, and holding what they give against float64."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from torchparity.check.emulation import RoundedResults
from torchparity.check.exhaustive.functions import function_named
from torchparity.check.exhaustive.results import ExhaustiveResult
from torchparity.check.judging import Outcome, Status, judge
from torchparity.check.judging.float_formats import FloatFormat, Floats, float_format
from torchparity.check.judging.metrics import is_same
from torchparity.errors import ConfigError, nearest

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
_SHORT_NAMES = {"fp16": "float16", "half": "float16", "bf16": "bfloat16"}
_INPUTS = 1 << 16
_PASSING_ULPS = 1.0
_NOT_RUN = (RuntimeError, NotImplementedError, TypeError, ValueError)


def check_exhaustively(
    functions: Iterable[str], dtypes: Iterable[str], device: str | torch.device
) -> Iterator[ExhaustiveResult]:
    """Yield the result of every function in every dtype, on all 65,536 inputs; refuse unknown names beforehand."""
    named = [(name, *function_named(name)) for name in functions]
    kinds = [_dtype_named(name) for name in dtypes]
    for name, api, function in named:
        for dtype in kinds:
            yield _check(name, api, function, dtype, torch.device(device))


def all_inputs(dtype: torch.dtype) -> torch.Tensor:
    """Return every number of a dtype of two bytes, in the order of its bits."""
    return torch.arange(_INPUTS, dtype=torch.int32).to(torch.int16).view(dtype)


def _dtype_named(name: str) -> torch.dtype:
    plain = name.strip().removeprefix("torch.")
    plain = _SHORT_NAMES.get(plain, plain)
    if plain not in DTYPES:
        raise ConfigError(
            f"{name!r} cannot be checked exhaustively; only {' and '.join(DTYPES)} have few enough numbers."
            f"{nearest(plain, DTYPES)}"
        )
    return DTYPES[plain]


def _check(
    name: str, api: str, function: Callable[..., Any], dtype: torch.dtype, device: torch.device
) -> ExhaustiveResult:
    inputs = all_inputs(dtype)
    try:
        with torch.no_grad():
            result = function(inputs.to(device)).cpu()
            exact = function(inputs.double())
    except _NOT_RUN as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return ExhaustiveResult(function=name, dtype=str(dtype), status=Status.SKIP, reason=reason)
    if result.dtype != dtype or result.shape != inputs.shape:
        reason = f"gives {result.dtype} of shape {tuple(result.shape)}"
        return ExhaustiveResult(function=name, dtype=str(dtype), status=Status.SKIP, reason=reason)
    own = None if device.type == "cpu" else _on_cpu(function, inputs)
    emulate = _emulation(function, inputs, dtype)
    judged = judge(Outcome(api, f"{api}.0.forward.output.0", result, exact, own, emulate))
    found = _measured(name, inputs, result, exact, own)
    return replace(found, status=_status(found, judged.status))


def _status(found: ExhaustiveResult, judged: Status) -> Status:
    """Return pass within one ULP everywhere; a warning where rounding in float32 explains what is beyond."""
    if not found.misplaced and (found.max_ulp or 0.0) <= _PASSING_ULPS:
        return Status.PASS
    return Status.WARNING if judged is Status.PASS else judged


def _on_cpu(function: Callable[..., Any], inputs: torch.Tensor) -> torch.Tensor | None:
    try:
        with torch.no_grad():
            result: torch.Tensor = function(inputs.clone())
    except _NOT_RUN:
        return None
    return result


def _emulation(function: Callable[..., Any], inputs: torch.Tensor, dtype: torch.dtype) -> Callable[[int], torch.Tensor]:
    wide = inputs.float()

    @cache
    def sample(number: int) -> torch.Tensor:
        with torch.no_grad(), RoundedResults(dtype, number):
            result: torch.Tensor = function(wide.clone()).double()
        return result

    return sample


def _measured(
    name: str, inputs: torch.Tensor, result: torch.Tensor, exact: torch.Tensor, own: torch.Tensor | None
) -> ExhaustiveResult:
    form = float_format(str(inputs.dtype))
    assert form is not None  # the dtypes are ours
    found, right = _numbers(result), _numbers(exact)
    ulps = _ulps(found, right, form)
    misplaced = np.flatnonzero(np.isnan(ulps))
    worst = int(np.nanargmax(ulps))
    rounded = form.rounded(right)
    of_cpu = None if own is None else float(np.nanmax(_ulps(_numbers(own), right, form)))
    return ExhaustiveResult(
        function=name,
        dtype=str(inputs.dtype),
        status=Status.PASS,
        max_ulp=float(ulps[worst]),
        mean_ulp=float(np.nanmean(ulps)),
        worst_input=float(inputs[worst]),
        worst_result=float(found[worst]),
        worst_exact=float(right[worst]),
        correctly_rounded=float(np.count_nonzero(is_same(found, rounded))) / _INPUTS,
        misplaced=misplaced.size,
        first_misplaced=float(inputs[int(misplaced[0])]) if misplaced.size else None,
        cpu_max_ulp=of_cpu,
    )


def _numbers(tensor: torch.Tensor) -> Floats:
    numbers: npt.NDArray[np.float64] = tensor.double().numpy()
    return numbers


def _ulps(found: Floats, right: Floats, form: FloatFormat) -> Floats:
    """Return the errors in ULPs; nan where one side alone is nan or inf, or both are and differ."""
    with np.errstate(invalid="ignore", over="ignore"):
        errors: Floats = np.abs(found - right) / form.spacing(np.abs(right))
    both = np.isfinite(found) & np.isfinite(right)
    return np.where(both, errors, np.where(is_same(found, form.rounded(right)), 0.0, np.nan))
