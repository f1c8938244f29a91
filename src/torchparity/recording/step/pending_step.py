"""A step that is over: drafts whose measurements the devices may still be computing."""

from __future__ import annotations

from dataclasses import dataclass

from torchparity.calls import attempted
from torchparity.recording.measuring.pending import PendingMeasurements
from torchparity.recording.step.drafts import Draft
from torchparity.recording.step.step_text import StepEncoder, unrecorded
from torchparity.records import Record, StackGroup
from torchparity.storage import OriginTable, SharedTensor
from torchparity.storage.encoding import EncodedStep


@dataclass(repr=False)
class PendingStep:
    """The drafts of a step and their measurements, which `records` and `encoded` wait for; call one of them, once."""

    drafts: list[Draft]
    stacks: list[StackGroup]
    construct: dict[str, str | None]
    measurements: PendingMeasurements
    origins: OriginTable | None = None
    encoder: StepEncoder | None = None  # of the recording: steps have most of their text in common

    def wait(self) -> None:
        """Block until the devices are done and every measurement is filled in."""
        self.measurements.wait()

    def records(self) -> list[tuple[Record, dict[str, SharedTensor]]]:
        """Return the records, with the values of their items."""
        self.wait()
        return [draft.finish() for draft in self.drafts]

    def encoded(self) -> tuple[EncodedStep, list[str]]:
        """Return the records as JSON, without values, and a sentence about each that could not be encoded."""
        encoder = self.encoder or StepEncoder()
        encoded = attempted(encoder.encode, self.drafts, self.measurements.wait_for_rows)
        return (EncodedStep(), [unrecorded("its records", encoded)]) if isinstance(encoded, Exception) else encoded

    def __repr__(self) -> str:
        return f"<PendingStep {len(self.drafts)} drafts, {self.measurements.state}>"
