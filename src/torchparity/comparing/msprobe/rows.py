"""msprobe's judgement of every item: verdict, sentences and colour; with its comparison, a row of the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from torchparity.comparing.measuring.item_comparison import ItemComparison, Reason
from torchparity.comparing.measuring.mode import Mode
from torchparity.comparing.msprobe.highlight import highlights
from torchparity.comparing.msprobe.messages import has_nothing_to_say, messages_of
from torchparity.comparing.msprobe.verdicts import AGAINST, verdict_of
from torchparity.comparing.pairing.items import Side
from torchparity.naming import RECOMPUTE_MARK


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """The cells of msprobe's table about an item beside its numbers; `reasons` are those of the colour."""

    verdict: str = ""
    messages: tuple[str, ...] = ()
    colour: str | None = None
    reasons: tuple[str, ...] = ()


_NOTHING_TO_SAY = Judgement()


class TableRow(msgspec.Struct, frozen=True, gc=False):
    """A row of the table: a comparison and msprobe's judgement of it."""

    comparison: ItemComparison
    judgement: Judgement

    @property
    def record(self) -> str:
        """The name of the item's record."""
        return self.comparison.pair.record

    @property
    def name(self) -> str:
        """The candidate's name of the item, or the baseline's where the candidate has none."""
        return self.comparison.pair.name

    @property
    def candidate(self) -> Side | None:
        """The candidate's item."""
        return self.comparison.pair.candidate

    @property
    def baseline(self) -> Side | None:
        """The baseline's item."""
        return self.comparison.pair.baseline

    @property
    def verdict(self) -> str:
        """msprobe's verdict: Yes, No, Warning, Pass, Different, …"""
        return self.judgement.verdict

    @property
    def colour(self) -> str | None:
        """The colour of the row: red, yellow or None."""
        return self.judgement.colour


def judgements(groups: Iterable[Sequence[ItemComparison]], mode: Mode, *, highlight: bool) -> list[Judgement]:
    """Return the judgement of every comparison; `groups` are those of one record each."""
    judged: list[Judgement] = []
    for group in groups:
        if highlight and mode != "checksums":
            judged += [
                _judgement(entry, mode, mark.colour, mark.reasons)
                for entry, mark in zip(group, highlights(group, mode), strict=True)
            ]
        else:
            judged += [_judgement(entry, mode) for entry in group]
    return judged


def _judgement(
    comparison: ItemComparison, mode: Mode, colour: str | None = None, reasons: tuple[str, ...] = ()
) -> Judgement:
    if not reasons and has_nothing_to_say(comparison):  # nearly every item: a million of them share one judgement
        return _NOTHING_TO_SAY
    verdict = verdict_of(comparison, mode)
    messages = messages_of(comparison, mode, verdict)
    return Judgement(verdict, messages, colour, reasons)


def differs(comparison: ItemComparison, verdict: str) -> bool:
    """Tell whether the two sides disagree, or one of them has a tensor that nobody could compare."""
    if verdict in AGAINST or comparison.reason is Reason.UNREADABLE:
        return True
    pair = comparison.pair
    side = pair.candidate or pair.baseline
    is_alone = not pair.is_matched and side is not None and side.is_tensor
    # What was done again for activation checkpointing has no partner in a run without it.
    return is_alone and not pair.record.endswith(RECOMPUTE_MARK)
