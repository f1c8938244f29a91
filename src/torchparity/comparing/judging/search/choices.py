"""Other choices among equal values, such as a sort's order of ties, and the records that follow from them."""

from __future__ import annotations

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, is_whole
from torchparity.comparing.judging.evidence.operators import chooses
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.verdict import Finding
from torchparity.comparing.measuring.deviation import least_deviation
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.naming import forward_of


class OtherChoices:
    """The records of one rank that are in another order because a call before them chose otherwise among equals.

    Open is the last of them in each branch, if its result differs and has not been put back into the same order since.
    """

    def __init__(self) -> None:
        self._followers: dict[int, dict[str, str]] = {}  # by step: the record, and the call that chose
        self._behind: dict[tuple[int, str], list[str]] = {}  # by step and record: the followers that it received
        self._open: dict[tuple[int, str], tuple[int, Finding]] = {}

    @property
    def first_open(self) -> tuple[int, Finding] | None:
        """The first result that differs and stays in another order, with its position."""
        return min(self._open.values(), key=lambda entry: (entry[1].step, entry[0]), default=None)

    def leave_open(self, context: PartContext, record: JudgedRecord, finding: Finding) -> None:
        """Take note of a result in another order that differs, instead of those that it was made from."""
        self._close_behind(context.step, record.name)
        self._open[context.step, record.name] = record.position, finding

    def follow(self, context: PartContext, record: JudgedRecord, limit: float) -> None:
        """Take note of a record that another choice put in another order: it is off by more than `limit`."""
        if record.direction == "backward":
            self._follow_backward(context, record)
        if not context.flow.is_recorded or record.direction != "forward":
            return
        followers = self._followers.get(context.step, {})
        makers = [maker for entry in record.received if entry.deviation for maker in context.flow.producers(entry)]
        behind = [maker for maker in makers if maker in followers]
        choice = followers[behind[0]] if behind else None
        if any(_is_another_index(context, record, entry) for entry in record.returned):
            choice = record.name
        if choice is None:
            return
        self._behind[context.step, record.name] = behind
        if not record.returned or record.deviation is None or record.deviation > limit:
            self._followers.setdefault(context.step, {})[record.name] = choice
        else:
            self._close_behind(context.step, record.name)

    def choice_of(self, context: PartContext, record: JudgedRecord) -> str | None:
        """Return the call whose other choice a record shows, None where there is none."""
        return self._followers.get(context.step, {}).get(record.name)

    def is_in_another_order(self, context: PartContext, entry: ItemComparison) -> bool:
        """Tell whether another choice put what a record received in another order."""
        followers = self._followers.get(context.step)
        return followers is not None and any(maker in followers for maker in context.flow.producers(entry))

    def hands_out_another_order(self, context: PartContext, record: JudgedRecord) -> bool:
        """Tell whether a module returned something that another choice put in another order."""
        return any(self.is_in_another_order(context, entry) for entry in record.returned)

    def _follow_backward(self, context: PartContext, record: JudgedRecord) -> None:
        """Take note of a gradient of what is in another order, was put into it, or put back."""
        followers = self._followers.get(context.step)
        forward = context.by_name.get(forward_of(record.name))
        if followers is None or forward is None or not record.input_deviation:
            return
        makers = (maker for entry in forward.received for maker in context.flow.producers(entry))
        around = (forward.name, *context.flow.consumers(forward.name), *makers)
        choice = next((followers[name] for name in around if name in followers), None)
        if choice is not None:
            followers[record.name] = choice

    def sentences(self) -> list[str]:
        """Return a sentence about each call that chose otherwise."""
        counts: dict[tuple[int, str], int] = {}
        for step, followers in self._followers.items():
            for record, choice in followers.items():
                counts[step, choice] = counts.get((step, choice), 0) + (record != choice)
        return [
            f"step {step}: {choice} chose otherwise among equal or close values, so {count} records have another order"
            for (step, choice), count in counts.items()
            if count
        ]

    def _close_behind(self, step: int, record: str) -> None:
        """Close what a record was made from: it stands for that."""
        pending, seen = list(self._behind.get((step, record), ())), {record}
        while pending:
            name = pending.pop()
            if name not in seen:
                seen.add(name)
                self._open.pop((step, name), None)
                pending += self._behind.get((step, name), ())


def _is_another_index(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> bool:
    """Tell whether an output is a choice among equals, or among values that rounding has moved."""
    if record.input_deviation > 0:
        if not chooses(record.name) or not is_whole(entry) or not entry.deviation:
            return False
        return context.near_ties.explain(record, entry) is not False
    return is_other_choice(context, record, entry)


def is_other_choice(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> bool:
    """Tell whether an output is a choice among equals: indices that differ where the values at them agree.

    From equal inputs the CPU makes the same choice.
    """
    if not chooses(record.name) or not is_whole(entry) or not entry.deviation:
        return False
    if record.has_equal_inputs and context.are_on_cpu:
        return False
    is_explained = context.near_ties.explain(record, entry)
    if is_explained is not None:
        return is_explained
    values = record.returned[0]
    if values is not entry:
        return not values.deviation
    return record.input_deviation > 0 or _is_permutation(entry)


def is_no_choice(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> bool:
    """Tell whether an output has other indices although the values at them are further apart than inputs are off."""
    return chooses(record.name) and bool(entry.deviation) and context.near_ties.explain(record, entry) is False


def _is_permutation(entry: ItemComparison) -> bool:
    """Tell whether the indices are those of the baseline in another order, as far as statistics tell."""
    if entry.candidate is None or entry.baseline is None:
        return False
    return least_deviation(entry.candidate.values(), entry.baseline) == 0
