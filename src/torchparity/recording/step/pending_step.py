"""A step that is over: its drafts, which whoever writes it turns into records when the devices are done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torchparity.calls.guard.boundary import attempted
from torchparity.recording.step.drafts import Draft
from torchparity.records import Record, StackGroup
from torchparity.storage import EncodedRecord, SharedTensor


@dataclass
class FinishedStep:
    """What a step recorded; of `records` and `encoded`, which wait for the devices, one is called, once."""

    drafts: list[Draft]
    stacks: list[StackGroup]
    construct: dict[str, str | None]
    fill: Callable[[], None]

    def records(self) -> list[tuple[Record, dict[str, SharedTensor]]]:
        """Return the records, with the values of their items."""
        self.fill()
        return [draft.finish() for draft in self.drafts]

    def encoded(self) -> tuple[list[EncodedRecord], list[str]]:
        """Return the records as JSON, without values, and sentences about those for which there is none."""
        failure = attempted(self.fill)
        if failure is not None:
            return [], [_unrecorded("its records", failure)]
        found: list[EncodedRecord] = []
        left_out: list[str] = []
        for draft in self.drafts:
            made = attempted(draft.encoded)
            if isinstance(made, Exception):
                left_out.append(_unrecorded(draft.name[:200], made))
            else:
                found.append(made)
        return found, left_out


def _unrecorded(what: str, error: Exception) -> str:
    return f"{what} could not be written ({type(error).__name__}: {str(error)[:200]})."
