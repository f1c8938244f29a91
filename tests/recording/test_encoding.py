"""What the writer's thread makes of a draft is, byte for byte, the JSON of the finished record."""

from __future__ import annotations

import pytest

from tests.recording.zoo import ZOO, Training
from torchparity.recording import capture
from torchparity.recording.step.pending_step import PendingStep
from torchparity.recording.step.recorder import Recorder
from torchparity.storage.encoding.encode import record_to_json
from torchparity.storage.encoding.json_text import encode


@pytest.fixture
def steps(monkeypatch):
    """The steps as the recorder hands them to the writer."""
    found: list[PendingStep] = []
    take = Recorder.take_step

    def taken(recorder):
        found.append(take(recorder))
        return found[-1]

    monkeypatch.setattr(Recorder, "take_step", taken)
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("summary", ["statistics", "md5"])
@pytest.mark.parametrize("name", ZOO)
def test_a_draft_is_encoded_as_its_record_would_be(name, summary, steps, tmp_path):
    training = Training(ZOO[name])
    with capture(tmp_path, model=training.model, level="mix", settings={"statistics": {"summary_mode": summary}}):
        training.step()

    drafts = [draft for step in steps for draft in step.drafts]

    assert len(drafts) > 10
    for draft in drafts:
        assert draft.encoded().entry == encode(record_to_json(draft.finish()[0])), draft.name
