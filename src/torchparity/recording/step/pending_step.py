"""A step that is over: drafts whose measurements the devices may still be computing."""

from __future__ import annotations

from dataclasses import dataclass

from torchparity.calls import attempted
from torchparity.recording.measuring.pending import PendingMeasurements
from torchparity.recording.step.drafts import Draft, encode_tensors
from torchparity.records import Record, StackGroup
from torchparity.storage import EncodedRecord, OriginTable, SharedTensor


@dataclass(repr=False)
class PendingStep:
    """The drafts of a step and their measurements, which `records` and `encoded` wait for; call one of them, once."""

    drafts: list[Draft]
    stacks: list[StackGroup]
    construct: dict[str, str | None]
    measurements: PendingMeasurements
    origins: OriginTable | None = None

    def wait(self) -> None:
        """Block until the devices are done and every measurement is filled in."""
        self.measurements.wait()

    def records(self) -> list[tuple[Record, dict[str, SharedTensor]]]:
        """Return the records, with the values of their items."""
        self.wait()
        return [draft.finish() for draft in self.drafts]

    def encoded(self) -> tuple[list[EncodedRecord], list[str]]:
        """Return the records as JSON, without values, and a sentence about each that could not be encoded."""
        failure = attempted(self.wait)
        if failure is not None:
            return [], [_unrecorded("its records", failure)]
        attempted(lambda: encode_tensors(self.drafts))  # where that fails, each record tells it of its own
        records: list[EncodedRecord] = []
        left_out: list[str] = []
        for draft in self.drafts:
            record = attempted(draft.encoded)
            if isinstance(record, Exception):
                left_out.append(_unrecorded(draft.name[:200], record))
            else:
                records.append(record)
        return records, left_out

    def __repr__(self) -> str:
        return f"<PendingStep {len(self.drafts)} drafts, {self.measurements.state}>"


def _unrecorded(what: str, error: Exception) -> str:
    return f"{what} could not be written ({type(error).__name__}: {str(error)[:200]})."
