"""Checking one case: run it in all ways, judge every output and every gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchparity.calls import attempted
from torchparity.check.cases import CannotRun, Case, reason_to_skip
from torchparity.check.execution import (
    Performed,
    Results,
    has_exact_inputs,
    is_exact,
    perform,
    picking,
    solving,
)
from torchparity.check.judging import Judgement, Outcome, Status, join, judge, judge_distribution, skipped
from torchparity.check.results import CallKey, CaseResult, skipped_case
from torchparity.check.selection import Selection
from torchparity.ops import function_called

_Values = Callable[[Results], Mapping[str, Any]]

_DROPPING = "dropout"
_NO_GRADIENT = "Bench output is None, skip this test."


@dataclass(frozen=True)
class Checked:
    """A case with its result, and what was computed for it; nothing was where it was skipped."""

    case: Case
    result: CaseResult
    performed: Performed | None = None


def check_case(case: Case, device: torch.device, selection: Selection | None = None) -> Checked:
    """Run one case on a device and judge it; whatever the API raises is the reason of a skip."""
    function = function_called(case.api)
    has_backward, key = case.backward is not None, key_of(case)
    reason = (selection.reason_to_skip(case) if selection else None) or reason_to_skip(case, function)
    if reason is not None or function is None:
        return Checked(case, skipped_case(key, reason or "", has_backward=has_backward))
    try:
        performed = perform(case, function, device)
    except CannotRun as cannot:
        return Checked(case, skipped_case(key, str(cannot), has_backward=has_backward))
    result = attempted(lambda: judge_performed(case, performed))
    if isinstance(result, Exception):  # the other calls are worth their check all the same
        fault = f"its results could not be judged, a fault of torchparity: {type(result).__name__}: {result}"
        return Checked(case, skipped_case(key, fault, has_backward=has_backward))
    return Checked(case, result, performed)


def key_of(case: Case) -> CallKey:
    """Return which call of the run a case is."""
    return CallKey(case.name, case.part.step, case.part.rank)


def judge_performed(case: Case, performed: Performed) -> CaseResult:
    """Judge every output and every gradient of a case that was run."""
    forward = [*_outputs(case, performed)]
    backward = [*_gradients(case, performed)] if case.backward is not None else []
    messages = [performed.note, _gradient_problem(performed)]
    messages += [_said(row, case) for row in (*forward, *backward) if row.status is not Status.PASS and row.message]
    return CaseResult(
        case.name,
        join(row.status for row in forward) or Status.SKIP,
        (join(row.status for row in backward) or Status.SKIP) if case.backward is not None else None,
        " ".join(dict.fromkeys(message for message in messages if message)),
        (*forward, *backward),
        case.part.step,
        case.part.rank,
    )


def _said(row: Judgement, case: Case) -> str:
    """Return the message of a row, with its place in front where it is judged: a call may have many."""
    place = row.name.removeprefix(f"{case.name}.")
    return row.message if row.status is Status.SKIP else f"{place}: {row.message}"


def _outputs(case: Case, performed: Performed) -> Iterator[Judgement]:
    device, reference = performed.device, performed.reference
    has_written = bool(device.written or reference.written)
    exact = has_exact_inputs(case, performed.call.arguments)
    solves = solving(case.api, performed.call.arguments, device.outputs)
    for path in dict.fromkeys([*device.outputs, *reference.outputs]):
        if has_written and device.outputs.get(path) is None and reference.outputs.get(path) is None:
            continue  # what it returns in place of None is what it wrote
        name = f"{case.forward.name}.output.{path}"
        pick = picking(case.operator, performed.call.arguments, path)
        outcome = _outcome(performed, name, lambda results: results.outputs, path, exact=exact)
        yield _judgement(performed, replace(outcome, pick=pick, solves=solves))
    for path in dict.fromkeys([*device.written, *reference.written]):
        name = f"{case.forward.name}.input.{path}"
        yield _judgement(performed, _outcome(performed, name, lambda results: results.written, path, exact=exact))


def _gradients(case: Case, performed: Performed) -> Iterator[Judgement]:
    device, reference = performed.device, performed.reference
    problem = _gradient_problem(performed)
    for path in dict.fromkeys([*device.gradients, *reference.gradients]):
        name = f"{case.name}.backward.output.{path}"
        if problem:
            yield skipped(name, problem)
        elif device.gradients.get(path) is None and reference.gradients.get(path) is None:
            yield skipped(name, _NO_GRADIENT)
        else:
            outcome = _outcome(performed, name, lambda results: results.gradients, path, exact=False)
            yield _judgement(performed, outcome)


def _gradient_problem(performed: Performed) -> str:
    """Return a sentence about gradients that the device or the reference does not have; nothing where both do."""
    problem = performed.device.gradient_problem or performed.reference.gradient_problem
    return f"No gradients: {problem.rstrip('.')}." if problem else ""


def _outcome(performed: Performed, name: str, values: _Values, path: str, *, exact: bool) -> Outcome:
    """Return the results at one place; `exact` where the inputs are exact and the answer hangs on their bits."""

    def result(results: Results | None) -> Any:
        return None if results is None else values(results).get(path)

    def emulate(number: int) -> Any:
        return result(performed.emulated(number, has_exact_inputs=exact))

    return Outcome(
        performed.case.api,
        name,
        result(performed.device),
        result(performed.reference),
        result(performed.same_dtype),
        emulate if performed.can_emulate else None,
        tf32=(lambda variant: result(performed.in_tf32(variant))) if performed.can_emulate else None,
        recurs_in_tf32=performed.recurs_in_tf32,
        is_exact=exact and is_exact(performed.case, performed.call.arguments),
    )


def _judgement(performed: Performed, outcome: Outcome) -> Judgement:
    if performed.reference.has_drawn:
        return judge_distribution(outcome, zero_share=_zero_share(performed))
    return judge(outcome)


def _zero_share(performed: Performed) -> float | None:
    """Return the p of a dropout, 0.5 where it was left out; None for other random functions."""
    if _DROPPING not in performed.case.operator:
        return None
    arguments = performed.call.arguments
    given: Any = arguments.kwargs.get("p", arguments.args[1] if len(arguments.args) > 1 else 0.5)
    return float(given) if isinstance(given, (int, float)) and not isinstance(given, bool) else None
