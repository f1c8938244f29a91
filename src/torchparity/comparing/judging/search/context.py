"""The facts about one part while its records are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from torchparity.code_lines import code_lines
from torchparity.comparing.judging.evidence.beyond_numbers import beyond_numbers
from torchparity.comparing.judging.evidence.cut_off import cut_off_of, finished_in_both
from torchparity.comparing.judging.evidence.damage import is_damaged
from torchparity.comparing.judging.evidence.data_flow import DataFlow
from torchparity.comparing.judging.evidence.dtypes import DifferingDtypes, differing_dtypes
from torchparity.comparing.judging.evidence.expectations import Expectations
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, judged_records
from torchparity.comparing.judging.evidence.near_ties import NearTies
from torchparity.comparing.judging.evidence.operators import communicates
from torchparity.comparing.judging.evidence.parameter_order import takes_another_order
from torchparity.comparing.judging.evidence.uses import UsesOfBothRuns
from torchparity.comparing.judging.limits import Limits
from torchparity.comparing.judging.part import ComparedPart
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.naming import OPTIMIZER, forward_of, is_module_name
from torchparity.overwrites import is_overwritten
from torchparity.records import Origin, Record, TensorLeaf
from torchparity.storage import RunPart


class PartContext:
    """The records of one part, their data flow, and what earlier steps of the same rank gave."""

    def __init__(self, part: ComparedPart, earlier: Mapping[int, PartContext], limits: Limits) -> None:
        self.part, self.earlier, self.limits = part, earlier, limits
        self.step = part.step
        self.records, self.alone = judged_records(part.pairs, part.groups)
        self.is_cut_off = cut_off_of(part) is not None or is_damaged(part.candidate, part.baseline)
        if self.is_cut_off:
            self.records = finished_in_both(self.records, part.candidate.records, part.baseline.records)
        self.by_name = {record.name: record for record in self.records}
        self.flow = DataFlow(part.candidate, part.baseline, self.records)
        self.environments = (part.candidate.info.environment, part.baseline.info.environment)
        self.expectations = Expectations(self.by_name, part.parents, self.environments)
        self.near_ties = NearTies(part.candidate, part.baseline)
        self.containers = self._modules_around_calls()
        self._ancestors: dict[str, list[JudgedRecord]] = {}
        self._alone_by_name = {entry.record.name: entry for entry in self.alone if entry.is_candidates}

    @cached_property
    def dtypes(self) -> DifferingDtypes:
        """The dtypes in which the two runs differ in this part."""
        return differing_dtypes(self.part.groups)

    @property
    def has_other_dtypes(self) -> bool:
        """True where the two runs compute in different dtypes somewhere in this part."""
        return self.dtypes.differing > 0

    def computes_otherwise(self, record: JudgedRecord) -> bool:
        """Tell whether the two runs compute a record in different dtypes, or with TF32 in one of them alone."""
        return differing_dtypes([record.items]).differing > 0 or self.expectations.has_other_tf32(record.name)

    def may_cancel(self, record: JudgedRecord) -> bool:
        """Tell whether rounding may be all there is of what a record has: gradients and steps of an optimizer."""
        return record.direction != "forward" or self.part.parents.get(record.name) == OPTIMIZER

    def ancestors(self, name: str) -> list[JudgedRecord]:
        """Return the pairs of records that a record which only one run has was computed from, in any step."""
        if name not in self._ancestors:
            self._ancestors[name] = self._ancestors_of(name)
        return self._ancestors[name]

    def _ancestors_of(self, name: str) -> list[JudgedRecord]:
        is_candidates = name in self._alone_by_name
        found: dict[tuple[int, str], JudgedRecord] = {}
        pending, seen = [(self, name)], {(self.step, name)}
        while pending:
            context, current = pending.pop()
            for origin in context._origins_of_inputs(current, is_candidates=is_candidates):
                at = context.context_of(origin)
                place = (at.step if at is not None else -1, origin.name)
                if at is None or place in seen:
                    continue
                seen.add(place)
                maker = at.paired(origin.name, is_candidates=is_candidates)
                if maker is not None:
                    found[place] = maker
                else:
                    pending.append((at, origin.name))
        return list(found.values())

    def _origins_of_inputs(self, name: str, *, is_candidates: bool) -> list[Origin]:
        part = self.part.candidate if is_candidates else self.part.baseline
        record = part.records.get(name)
        return [
            origin
            for item in (record.items() if record is not None else ())
            if item.role == "input" and isinstance(item.leaf, TensorLeaf)
            for origin in part.origins_of(item.leaf)
        ]

    @cached_property
    def has_gradients_alone(self) -> bool:
        """True where one run has a backward record without a partner."""
        return any(entry.record.direction == "backward" for entry in self.alone)

    @cached_property
    def uses(self) -> UsesOfBothRuns:
        """The uses of what the forward calls of both runs returned."""
        return UsesOfBothRuns(self.part.candidate, self.part.baseline, self.records)

    def adding_to_gradient(self, entry: ItemComparison) -> str | None:
        """Return the call of one run alone that adds to a gradient, which backward records of both runs made."""
        sides = ((True, self.flow.origins(entry)), (False, self.flow.baseline_origins(entry)))
        makers = [self.paired(made.name, is_candidates=is_mine) for is_mine, origins in sides for made in origins]
        gradients = [maker for maker in makers if maker is not None and maker.direction == "backward"]
        leaf = entry.baseline.leaf if entry.baseline is not None else None
        return self.uses.adding_to_gradient(gradients, leaf.shape if isinstance(leaf, TensorLeaf) else ())

    @cached_property
    def _by_baseline_name(self) -> dict[str | None, JudgedRecord]:
        return {record.baseline_name: record for record in self.records}

    def _modules_around_calls(self) -> set[str]:
        """Return the modules inside of which calls were recorded: those tell more than the module's own record."""
        around: set[str] = set()
        for name, parent in self.part.parents.items():
            if parent is not None and parent not in around and not is_module_name(name):
                around |= {parent, *self.enclosing(parent)}
        return around

    def is_no_input(self, record: JudgedRecord, entry: ItemComparison) -> bool:
        """Tell whether an argument's former content is nothing that the call reads, or sends to another rank."""
        item = record.short_name(entry)
        if is_overwritten(record.name, item):
            return True
        if not communicates(record.name) or record.name not in self.part.candidate.records:
            return False
        return self._is_not_sent(self.part.candidate.records[record.name], item)

    def _is_not_sent(self, record: Record, item: str) -> bool:
        from torchparity.communication.shares import items_sent  # a run of one rank does without

        sent = items_sent(record, self.part.rank)
        return sent is not None and item not in sent

    def is_container(self, record: JudgedRecord) -> bool:
        """Tell whether calls inside of a module's record say all that the record says."""
        return record.name in self.containers or (record.is_module and forward_of(record.name) in self.containers)

    def enclosing(self, record: str) -> list[str]:
        """Return the modules around a record, innermost first."""
        names: list[str] = []
        parent = self.part.parents.get(record)
        while parent is not None and parent not in names:
            names.append(parent)
            parent = self.part.parents.get(parent)
        return names

    def innermost(self, records: Sequence[str]) -> list[str]:
        """Return records without the modules around others of them.

        A hook of such a module may change the gradient that the calls inside return.
        """
        around = {module for record in records for module in self.enclosing(record)}
        return [record for record in records if record not in around]

    @cached_property
    def are_on_cpu(self) -> bool:
        """True where neither run tells of an accelerator."""
        return not any(kind in told for told in self.environments for kind in ("cuda", "npu", "xpu"))

    def lacks_forward(self, record: JudgedRecord) -> bool:
        """Tell whether a backward record's forward call is not recorded, so that nobody knows what it received."""
        return record.direction != "forward" and forward_of(record.name) not in self.by_name

    @cached_property
    def paired_in_baseline(self) -> set[str | None]:
        """The baseline's records that have a partner."""
        return set(self._by_baseline_name)

    @cached_property
    def keeps_outputs(self) -> bool:
        """True where one tool recorded both runs, and both keep what calls returned."""
        parts = (self.part.candidate, self.part.baseline)
        return parts[0].info.tool == parts[1].info.tool and all(map(_has_outputs, parts))

    @cached_property
    def takes_another_order(self) -> bool:
        """True where the optimizers of the two runs take the same parameters in another order."""
        return takes_another_order(self.part.candidate, self.part.baseline, self.records, self.flow)

    @cached_property
    def has_same_seed(self) -> bool:
        """True where both runs say that they have the same seed."""
        seeds = [environment.get("seed") for environment in self.environments]
        return seeds[0] is not None and seeds[0] == seeds[1]

    def is_in_backward(self, record: JudgedRecord) -> bool:
        """Tell whether backward has begun before a record: what it receives then may be a gradient."""
        return self._first_backward is not None and self._first_backward < record.position

    def is_before_backward(self, position: int) -> bool:
        """Tell whether a record at this position was made before backward began."""
        return self._first_backward is None or position < self._first_backward

    @cached_property
    def _first_backward(self) -> int | None:
        backward = (record.position for record in self.records if record.direction == "backward")
        return next(backward, None)

    @cached_property
    def first_unequal_gradient(self) -> JudgedRecord | None:
        """The first backward record that received or returned something else than its partner."""
        backward = (record for record in self.records if record.direction == "backward")
        return next((record for record in backward if any(entry.deviation for entry in record.items)), None)

    def maker(self, origin: Origin) -> JudgedRecord | None:
        """Return the pair of records that made something, in this step or in an earlier one."""
        at = self.context_of(origin)
        return None if at is None else at.by_name.get(origin.name)

    def context_of(self, origin: Origin) -> PartContext | None:
        """Return the step in which something was made; None where no compared record made it."""
        if origin.kind == "record":
            return self
        return self.earlier.get(origin.step) if origin.kind == "earlier" and origin.step is not None else None

    def is_alone(self, name: str, *, is_candidates: bool) -> bool:
        """Tell whether a record of one run has no partner in the other."""
        return name not in (self.by_name if is_candidates else self.paired_in_baseline)

    def paired(self, name: str, *, is_candidates: bool) -> JudgedRecord | None:
        """Return the pair that a record of one run is in."""
        return self.by_name.get(name) if is_candidates else self._by_baseline_name.get(name)

    def alone_before(self, record: JudgedRecord) -> str | None:
        """Return the first record before another that only one run has, in the order of that run."""
        if not self.alone:
            return None
        place = self._baseline_order.get(record.baseline_name or "", 0)
        for entry in self.alone:
            name = entry.record.name
            is_before = entry.judged.position < record.position
            if not entry.is_candidates:
                is_before = self._baseline_order.get(name, place) < place
            if is_before and not entry.record.is_recompute:
                return name
        return None

    @cached_property
    def _baseline_order(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.part.baseline.records)}

    def candidates_alone(self, name: str) -> JudgedRecord | None:
        """Return a record that only the candidate has."""
        entry = self._alone_by_name.get(name)
        return None if entry is None else entry.judged

    def run_with(self, alone: str) -> str:
        """Say which run has a record without a partner: "one run" where both have such a one of this name."""
        sides = {entry.is_candidates for entry in self.alone if entry.record.name == alone}
        return "the candidate" if sides == {True} else "the baseline" if sides == {False} else "one run"

    def finding(
        self,
        kind: Kind,
        record: JudgedRecord,
        entry: ItemComparison,
        *,
        expected: float = 0.0,
        expected_because: str = "",
        values: tuple[str, str] | None = None,
        sources: Sequence[str] = (),
        partner: str | None = None,
        explanation: str = "",
        is_shown: bool = True,
        is_certain: bool = True,
        deviation: float | None = None,
    ) -> Finding:
        """Return a finding about one item of a record."""
        return Finding(
            kind=kind,
            step=self.step,
            rank=self.part.rank,
            row=record.row_of(entry),
            record=record.name,
            baseline_record=record.baseline_name,
            item=record.short_name(entry),
            module=self.part.parents.get(record.name),
            deviation=entry.deviation or 0.0 if deviation is None else deviation,
            beyond_numbers=beyond_numbers(entry),
            expected=expected,
            expected_because=expected_because,
            input_deviation=record.input_deviation,
            values=values,
            lines=code_lines(self.part.lines_of(record.name)),
            sources=tuple(sources),
            partner=partner,
            partner_run="one run" if partner is None else self.run_with(partner),
            explanation=explanation,
            is_shown=is_shown,
            is_certain=is_certain,
        )


def _has_outputs(part: RunPart) -> bool:
    return any(
        item.role == "output" and isinstance(item.leaf, TensorLeaf)
        for record in part.records.values()
        for item in record.items()
    )
