"""Advice about a verdict, in a sentence for each kind."""

from __future__ import annotations

from torchparity.comparing.judging.verdict import Finding, Kind, Verdict
from torchparity.comparing.judging.wording.sentences import is_between_modules
from torchparity.errors import RecordNameError
from torchparity.naming import OPTIMIZER, is_parameter_gradient, parse_record

_FORWARD = (
    "This operator's forward computation is wrong: run it alone against a higher precision, "
    "try deterministic mode (seed_all(mode=True)), then another device."
)
_BACKWARD = (
    "This operator's backward computation is wrong: run it alone against a higher precision, and look at the "
    "gradient that flowed in."
)
_UPDATE = "The optimizer's result is wrong: compare its settings and its state in both runs."
_SAVED = "A value that was saved differs: trace in the code where it comes from."
_KERNEL = (
    "There is nan or inf in one run alone, and the inputs are the same in both, so this operator's kernel is wrong: "
    "run it alone."
)
_SETTINGS = "The optimizers are set differently: compare their lr, weight_decay, betas, eps, foreach."
_BETWEEN_MODULES = "Something between the modules differs: use level mix, which records the calls there too."
_FOREACH = "The optimizers make other calls (foreach in one run): give both foreach=False and record again."
_OTHER_CALLS = "The optimizers make other calls: set them alike (foreach, fused) and record again."
_OTHER_SOURCE = "The two runs pass on different tensors here: compare what the line gives to this call in both."
_ADDED_UP = (
    "The gradient of a parameter is more, or less, than this step's backward gave: look for zero_grad() that one run "
    "leaves out, gradients that are accumulated, and hooks that change them."
)
_STATE = "The optimizers have different states here: load the same one into both, or record from the first step on."
DAMAGED = "Copy the file again, or record this run again: nothing is known of what is lost."
_ADVICE = {
    Kind.AGREE: "Nothing differs by more than rounding: if the training differs all the same, record later steps.",
    Kind.OPERATOR: _FORWARD,
    Kind.ARGUMENT: "The two runs call it with a different argument: check the configuration of this operator.",
    Kind.WEIGHTS: "The two runs have different weights here: load the same checkpoint, and check how they are set.",
    Kind.DATA: "The two runs got different data here: check the order of the data, shuffling, and what is computed "
    "outside of the recording.",
    Kind.RANDOM: "The two runs drew different random numbers: set the same seeds with seed_all(seed), and list the "
    "calls that draw with random_save.",
    Kind.UNINITIALISED: "It reads memory that nobody has written, so that its result is chance in both runs: fill "
    "the tensor first (zeros for empty).",
    Kind.MISSING_GRADIENT: "A gradient comes in one run alone: look for detach(), no_grad or requires_grad_(False) "
    "on the way.",
    Kind.SHAPE: "The two runs have tensors of different shapes here: compare the configuration and what the call is "
    "given.",
    Kind.NONFINITE: "There is nan or inf in one run alone, and this record made the first: look at its inputs for "
    "what overflows, is divided by zero or is masked altogether.",
    Kind.DTYPE: "The two runs compute in different dtypes: compare runs of one dtype to see anything finer.",
    Kind.MODEL: "These look like different models: check that both runs are of one model.",
    Kind.BATCH: "The two runs have different batch sizes: give both the same to compare every record.",
    Kind.CALL: "Only one run makes this call: look at that line, and check that both take the same branch.",
    Kind.UNRECORDED: "Trace where this input comes from: an operation that is not recorded or an in-place call may "
    "lie before it; record more (risk_level ALL, level mix), then rule out memory that was overwritten.",
    Kind.CUT_OFF: "One of the runs did not finish: see its traceback; the call after the last record is where it "
    "stopped.",
    Kind.UNKNOWN: "Check that both runs are of one model and kept the same kind of data.",
}


def advice_on(verdict: Verdict, first_step: int, *, has_other_optimizer: bool, is_foreach_once: bool) -> str:
    """Return what to do about a verdict; `first_step` is the first that was compared."""
    said = advice(verdict.kind, verdict.first)
    if verdict.kind is Kind.AGREE and has_other_optimizer:
        return _FOREACH if is_foreach_once else _OTHER_CALLS
    if verdict.kind is Kind.WEIGHTS and verdict.first is not None and verdict.first.step == first_step > 0:
        earlier = (
            f"Or they parted before step {first_step}: record from step 0, or find the step with --checksum-every."
        )
        return f"{said} {earlier}"
    return said


def advice(kind: Kind, finding: Finding | None = None) -> str:
    """Return what to do about a finding, or a verdict, of this kind."""
    if finding is None:
        return _ADVICE[kind]
    if finding.module == OPTIMIZER and kind in (Kind.ARGUMENT, Kind.CALL):
        return _SETTINGS
    if finding.module == OPTIMIZER and kind is Kind.DATA:
        return _STATE
    if kind is Kind.NONFINITE and finding.input_deviation == 0:
        return _KERNEL
    if kind is Kind.CALL and finding.values is not None:
        return _OTHER_SOURCE
    if kind is Kind.CALL and finding.partner is not None and not finding.is_call_alone:
        return (
            f"Only {finding.partner_run} calls {finding.partner}: look there, and check that both take the same branch."
        )
    if kind is Kind.CALL and finding.is_call_alone:
        return _ADVICE[kind].replace("one run", "the candidate", 1)
    if kind is Kind.UNRECORDED and finding.is_certain and _is_of_a_gradient(finding):
        return _ADDED_UP
    if is_between_modules(finding):
        return _BETWEEN_MODULES
    if kind is not Kind.OPERATOR:
        return _ADVICE[kind]
    said = _of_operator(finding)
    if finding.is_set_otherwise:
        said = f"{said[0].lower()}{said[1:]}"
        return f"Set this alike in both runs first: {finding.explanation}. If they part all the same, {said}"
    return f"Mind: {finding.explanation}. {said}" if finding.explanation else said


def _is_of_a_gradient(finding: Finding) -> bool:
    """Tell whether a parameter's gradient differs: where it is recorded, or where the optimizer reads it."""
    if finding.module == OPTIMIZER:
        return any(source.endswith(".backward") for source in finding.sources)
    return is_parameter_gradient(finding.record)


def _of_operator(finding: Finding) -> str:
    try:
        direction = parse_record(finding.record).direction
    except RecordNameError:  # a hand-written run may have any name
        return _FORWARD
    if direction == "forward":
        return _UPDATE if finding.module == OPTIMIZER else _FORWARD
    return _SAVED if direction == "debug" else _BACKWARD
