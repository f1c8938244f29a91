"""Nothing that a step recorded is lost on its way to the disk and back."""

from __future__ import annotations

import pytest

from tests.support.zoo import ZOO, Training
from torchparity import open_run
from torchparity.naming import parse_record
from torchparity.recording import capture
from torchparity.recording.selection.requested_names import check_names
from torchparity.recording.step.pending_step import PendingStep
from torchparity.recording.step.recorder import Recorder
from torchparity.storage.encoding.encode import record_to_json
from torchparity.storage.encoding.json_text import encode


@pytest.fixture
def steps(monkeypatch):
    """The steps as the recorder hands them to the writer."""
    handed_over: list[PendingStep] = []
    take = Recorder.take_step

    def taken(recorder, number):
        handed_over.append(take(recorder, number))
        return handed_over[-1]

    monkeypatch.setattr(Recorder, "take_step", taken)
    return handed_over


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


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("name", ZOO)
def test_every_record_of_a_step_is_read_again(name, task, steps, tmp_path):
    training = Training(ZOO[name])
    with capture(tmp_path, model=training.model, level="mix", task=task) as recording:
        training.step()
        recording.step()
        training.step()

    run = open_run(tmp_path)
    assert run.steps == [0, 1]
    for step, part in zip(steps, run.parts, strict=True):
        assert len(part.records) > 10
        assert sorted(part.records) == sorted(draft.name for draft in step.drafts)
        assert part.problems == [] and part.verify() == []


@pytest.mark.parametrize("zoo_model", sorted(ZOO))
def test_every_name_that_is_recorded_may_be_asked_for(tmp_path, zoo_model):
    def names_recorded(path, **settings):
        training = Training(ZOO[zoo_model])
        with capture(path, model=training.model, risk_level="ALL", **settings):
            training.step()
        return [str(parse_record(name)) for name in open_run(path).part().records if "#" not in name]

    names = names_recorded(tmp_path / "all")
    modules = {name.rpartition(".")[0].rpartition(".")[0] for name in names if name.startswith("Module.")}
    check_names(names, level="mix", modules=modules, custom=())

    assert names_recorded(tmp_path / "asked", list=names) == names
