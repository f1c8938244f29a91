"""Looks for the places where the runs part on one rank, step after step, record after record in the order of time."""

from __future__ import annotations

from collections.abc import Sequence

from torchparity.comparing.judging.evidence.closeness import Closeness
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, split_items
from torchparity.comparing.judging.evidence.operators import returns_raw_memory, rounds
from torchparity.comparing.judging.figures import (
    FEWEST_EQUAL_CALLS,
    GAIN_OF_A_CALL,
    NEVER_ROUNDING,
    NEVER_ROUNDING_OF_DTYPES,
    ROUNDED_NUMBER,
    ROUNDED_TO_ANOTHER_DTYPE,
)
from torchparity.comparing.judging.limits import Limits
from torchparity.comparing.judging.part import ComparedPart
from torchparity.comparing.judging.record_patterns import matches
from torchparity.comparing.judging.search.argument_findings import argument_finding, independent_argument
from torchparity.comparing.judging.search.arguments import NumbersRead, differing_arguments, rounded_numbers
from torchparity.comparing.judging.search.choices import OtherChoices
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.search.gradients_of_one_run import Excuse, excuse_of_gradient, gradient_of_one_run
from torchparity.comparing.judging.search.handed_out import handed_out_finding, other_form_finding, passes_on
from torchparity.comparing.judging.search.inputs import input_finding, is_raw_memory
from torchparity.comparing.judging.search.last_writes import last_write_finding
from torchparity.comparing.judging.search.masks import HidingMasks
from torchparity.comparing.judging.search.missing_gradients import missing_gradient
from torchparity.comparing.judging.search.outputs import output_finding
from torchparity.comparing.judging.search.parameter_gradients import (
    is_of_another_parameter,
    parameter_gradient_finding,
    weights_after_another_order,
)
from torchparity.comparing.judging.search.saved_values import saved_tensor_finding, saved_value_finding
from torchparity.comparing.judging.search.tainted import TaintedRecords
from torchparity.comparing.judging.search.unexplained import unexplained_item
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.naming import OPTIMIZER, forward_of


class RankSearch:
    """The findings of one rank, in the order of time; `contexts` has what is known of each step."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._is_looking = limits.after is None
        self.findings: list[tuple[int, Finding]] = []  # with the position of the record
        self.contexts: dict[int, PartContext] = {}
        self.ignored: list[Finding] = []  # what the user expects and lets pass
        self.closeness = Closeness()
        self.has_looked = False
        self.unexplained: tuple[int, Finding] | None = None  # the first result that is off by more than rounding
        self.choices = OtherChoices()
        self._masks = HidingMasks()
        self._tainted = TaintedRecords()
        self._numbers = NumbersRead()
        self._is_equal_so_far = True
        self._equal_calls = 0
        self._first_unequal: tuple[JudgedRecord, ItemComparison, int] | None = None

    def add_step(self, part: ComparedPart) -> None:
        """Look through the next step."""
        context = PartContext(part, dict(self.contexts), self._limits)
        self.contexts[part.step] = context
        self._numbers.begin_step((part.candidate.info, part.baseline.info), context.alone)
        for record in context.records:
            self._masks.unveil(context, record)
            if not self._is_looking:
                self._look_after(context, record)
                continue
            self.has_looked = True
            if any(entry.deviation != 0 for entry in record.items):
                self._judge(context, record)
            elif record.direction == "forward" and rounds(record.name):
                self._equal_calls += 1
        if self.unexplained is None:
            self.unexplained = self.choices.first_open
        parted = [position for position, found in self.findings if found.is_shown and found.step == part.step]
        gradient = None if context.is_cut_off else missing_gradient(context, parted)
        if gradient is not None:
            self._add(context, context.by_name[gradient.record], gradient)
        if self._tainted.has_any_of(part.step):  # the calls inside tell which part of a module no finding explains
            self.closeness.explain(part.step, [record.name for record in filter(context.is_container, context.records)])
        self.findings.sort(key=lambda entry: (entry[1].step, entry[0]))

    def finish(self) -> None:
        """Look at what the last step leaves behind."""
        last = self.contexts[max(self.contexts)]
        is_agreeing = self._is_looking and not any(found.is_shown for _, found in self.findings)
        found = last_write_finding(last) if is_agreeing and not last.is_cut_off else None
        if found is not None:
            self._add(last, last.records[-1], found)

    def _look_after(self, context: PartContext, record: JudgedRecord) -> None:
        """Pass a record by; from the one on that the user names, look."""
        self._split(context, record)
        self.closeness.explain(context.step, [record.name])
        self._is_equal_so_far = False
        if self._limits.after is not None and matches(self._limits.after, record.name, context.part.parents):
            self._is_looking = True

    def _judge(self, context: PartContext, record: JudgedRecord) -> None:
        reads_raw_memory = self._split(context, record)
        if is_of_another_parameter(context, record):
            record.is_of_another_parameter = True
            self.closeness.explain(context.step, [record.name])
            return
        if context.is_container(record):
            self._judge_handed_out(context, record)
            return
        if record.direction == "debug":
            found = self._saved_value(context, record)
        elif record.direction == "parameters_grad":
            found = self._parameter_gradient(context, record)
        elif self._tainted.explains(context, record):
            self._taint(context, [record.name])
            argument = independent_argument(context, record, self._numbers)
            if argument is not None:
                self._add(context, record, argument)
            return
        elif (excuse := excuse_of_gradient(context, record)) is not None:
            self._excuse(context, record, excuse)
            return
        else:
            found = self._found(context, record, reads_raw_memory=reads_raw_memory)
        if found is not None:
            self._add(context, record, found)
        elif self.unexplained is None:
            self._note_unexplained(context, record)
        self._note_equality(context, record)

    def _excuse(self, context: PartContext, record: JudgedRecord, excuse: Excuse) -> None:
        if excuse is Excuse.UNDONE:
            self._taint(context, [record.name])  # what follows from it agrees again in the end
        self.closeness.explain(context.step, [record.name])

    def _saved_value(self, context: PartContext, record: JudgedRecord) -> Finding | None:
        found = saved_tensor_finding(context, record)
        if found is not None or self._tainted.has_any:
            return found  # nobody knows what a number was computed from: it may follow from a finding
        rounding = GAIN_OF_A_CALL * self._rounding_of_numbers(context, record)
        return saved_value_finding(context, record, rounding, is_equal_so_far=self._is_equal_so_far)

    def _parameter_gradient(self, context: PartContext, record: JudgedRecord) -> Finding | None:
        if self._tainted.explains(context, record):
            self.closeness.explain(context.step, [record.name])
            return None
        return parameter_gradient_finding(context, record)

    def _taint(self, context: PartContext, records: Sequence[str]) -> None:
        """Take note of records that a finding explains."""
        self._tainted.add(context.step, records)
        self.closeness.explain(context.step, records)

    def _judge_handed_out(self, context: PartContext, record: JudgedRecord) -> None:
        if self._tainted.explains(context, record):
            return
        found = self._handed_out(context, record)
        if found is not None:
            self._add(context, record, found)
        elif self.unexplained is None and not self.choices.hands_out_another_order(context, record):
            self._note_unexplained(context, record)

    def _handed_out(self, context: PartContext, record: JudgedRecord) -> Finding | None:
        found = handed_out_finding(context, record, is_equal_so_far=self._is_equal_so_far)
        return found or other_form_finding(context, record)

    def _note_unexplained(self, context: PartContext, record: JudgedRecord) -> None:
        """Keep the first item that is off by what nothing explains; one in another order only if it stays so."""
        found = unexplained_item(context, record, self._limit_of_rounding(context))
        if found is None:
            return
        choice = self.choices.choice_of(context, record)
        explanation = f"after {choice}, which chose otherwise among equal or close values" if choice else ""
        finding = context.finding(
            Kind.UNKNOWN,
            record,
            found.entry,
            expected=found.explained,
            sources=found.makers,
            explanation=explanation,
        )
        if self._limits.ignores(record.name, context.part.parents):
            self.ignored.append(finding)
            self._taint(context, [record.name])
        elif choice:
            self.choices.leave_open(context, record, finding)
        else:
            self.unexplained = record.position, finding

    def _limit_of_rounding(self, context: PartContext) -> float:
        limit = NEVER_ROUNDING_OF_DTYPES if context.has_other_dtypes else NEVER_ROUNDING
        return max(limit, self._limits.tolerance or 0.0)

    def _found(self, context: PartContext, record: JudgedRecord, *, reads_raw_memory: bool) -> Finding | None:
        if record.passes_on and record.direction == "backward":
            return None  # in one run it has the gradient of all that use what it passed on
        received = gradient_of_one_run(context, record) if record.direction == "backward" else None
        received = received or weights_after_another_order(context, record) or input_finding(context, record)
        if received is not None:
            return received
        if record.passes_on:
            arguments = differing_arguments(record, self._rounding_of_numbers(context, record))
            certain = [argument for argument in arguments if not argument.is_one_sided]
            if certain:
                return argument_finding(context, record, certain, None, is_shown=True)
            return self._handed_out(context, record)
        rounding = self._rounding_of_numbers(context, record)
        returned = output_finding(context, record, reads_raw_memory=reads_raw_memory)
        if returned is not None and returned.deviation <= GAIN_OF_A_CALL * rounded_numbers(record, rounding):
            returned = None
        if record.direction == "forward" and (returned is None or returned.kind is not Kind.UNINITIALISED):
            arguments = differing_arguments(record, rounding)
            if arguments:
                return argument_finding(context, record, arguments, returned)
        if returned is None:
            return other_form_finding(context, record)
        if returned.kind is not Kind.OPERATOR or not returned.input_deviation:
            return returned
        return returned if returned.explanation else self._traced_back(context, record, returned)

    def _rounding_of_numbers(self, context: PartContext, record: JudgedRecord) -> float:
        """Return by how much numbers may differ: not at all where none can have been read out of a tensor."""
        if context.part.parents.get(record.name) == OPTIMIZER:
            return 0.0
        if context.has_other_dtypes:
            return ROUNDED_TO_ANOTHER_DTYPE
        return 0.0 if self._is_equal_so_far else ROUNDED_NUMBER

    def _traced_back(self, context: PartContext, record: JudgedRecord, found: Finding) -> Finding:
        """Return the first record that is not bit-equal where many before it are, instead of one that exceeds it.

        Not where that one is off by more than a call makes of what grows from call to call: it is wrong itself. In the
        gradient of the first it has grown twice.
        """
        first = self._first_unequal
        if first is None or first[2] < FEWEST_EQUAL_CALLS:
            return found
        origin, entry, _ = first
        is_own_gradient = record.direction == "backward" and forward_of(record.name) == origin.name
        grown = GAIN_OF_A_CALL * GAIN_OF_A_CALL if is_own_gradient else GAIN_OF_A_CALL
        is_wrong_itself = found.deviation > grown * found.expected
        if is_wrong_itself or context.by_name.get(origin.name) is not origin:
            return found
        explanation = f"all before it is bit-equal, and from it on the difference grows until {record.name}"
        return context.finding(Kind.OPERATOR, origin, entry, expected=entry.deviation or 0.0, explanation=explanation)

    def _note_equality(self, context: PartContext, record: JudgedRecord) -> None:
        if not record.deviation or record.passes_on:
            return
        if self._is_equal_so_far and record.has_equal_inputs and record.returned and self._first_unequal is None:
            worst = max(record.returned, key=lambda entry: entry.deviation or 0.0)
            if worst.deviation and not context.computes_otherwise(record):
                self._first_unequal = record, worst, self._equal_calls
        if record.returned and not returns_raw_memory(record.name):
            self._is_equal_so_far = False

    def _add(self, context: PartContext, record: JudgedRecord, found: Finding) -> None:
        home = self.contexts[found.step]
        at = home.by_name.get(found.record) or home.candidates_alone(found.record) or record
        if self._limits.ignores(found.record, home.part.parents):
            self.ignored.append(found)
        elif found.kind is Kind.UNKNOWN:
            self.unexplained = self.unexplained or (at.position, found)
        else:
            self.findings.append((at.position, found))
        if found.is_shown:
            self._taint(context, [record.name])
            self._taint(home, [found.record, *home.enclosing(found.record)])

    def _split(self, context: PartContext, record: JudgedRecord) -> bool:
        """Fill in what a record received and returned; tell whether it read memory that nobody had written."""
        flow, reads_raw_memory = context.flow, False

        def is_value(entry: ItemComparison) -> bool:
            nonlocal reads_raw_memory
            if not entry.is_input:
                if returns_raw_memory(record.name):
                    return False
            elif context.is_no_input(record, entry):
                return False
            if not flow.is_recorded:
                return True
            is_raw = is_raw_memory(context, entry) if entry.is_input else flow.is_uninitialised(entry)
            if is_raw and entry.is_input:
                reads_raw_memory = True
            return not is_raw

        split_items(record, is_value)
        self._numbers.follow(record)
        if record.direction == "forward":
            record.passes_on = flow.is_recorded and passes_on(context, record)
        elif record.direction == "backward":
            forward = context.by_name.get(forward_of(record.name))
            record.passes_on = forward is not None and forward.passes_on
        self._masks.follow(context, record)
        self.choices.follow(context, record, NEVER_ROUNDING)
        if not record.passes_on and self.choices.choice_of(context, record) is None:
            for entry in (*record.received, *record.returned):
                if entry.deviation and not (entry.is_input and self.choices.is_in_another_order(context, entry)):
                    is_remainder = entry.deviation > self._limit_of_rounding(context) and context.may_cancel(record)
                    self.closeness.measure(context.step, record.name, entry, is_remainder=is_remainder)
        return reads_raw_memory
