"""Runs whose files of records are damaged: they agree with nobody, and nobody is blamed for what is lost."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from torch.nn import functional

import torchparity
from tests.faultbed.plant import wrong_output
from tests.support.planting import planted
from torchparity.recording import capture

GELU = "Functional.gelu.0.forward"


@pytest.fixture
def record(tmp_path):
    """Record two steps of a model; a call may be wrong or have another argument, or weights change after step 0."""

    def recorded(name, *, eps=1e-5, moved=0.0, change=None):
        torch.manual_seed(0)
        layers = nn.Linear(8, 8), nn.LayerNorm(8, eps=eps), nn.Linear(8, 3)
        model = nn.Sequential(*layers)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        weights = layers[0].weight.detach().numpy()
        with capture(tmp_path / name, model=model) as recording:
            for step in range(2):
                optimizer.zero_grad()
                with planted(GELU, change):
                    functional.gelu(model(torch.randn(4, 8))).pow(2).mean().backward()
                optimizer.step()
                if not step:
                    recording.step()
                    weights += moved  # which no recording sees
        return tmp_path / name

    return recorded


def file_of(run, step=0, name="dump.json"):
    return run / f"step{step}" / "rank0" / name


def cut_before(run, text, step=0):
    file = file_of(run, step)
    content = file.read_bytes()
    file.write_bytes(content[: content.index(text.encode())])


def verdict(candidate, baseline, side="candidate"):
    return torchparity.compare(*((candidate, baseline) if side == "candidate" else (baseline, candidate))).verdict


SIDES = pytest.mark.parametrize("side", ["candidate", "baseline"])


@pytest.mark.parametrize("steps", [(0, 0), (0, 1), (1, 0)])
def test_two_runs_that_are_both_damaged_do_not_agree(record, steps):
    runs = record("one"), record("other")
    for run, step, where in zip(
        runs, steps, ('"Functional.gelu.0.forward"', '"Functional.linear.1.forward"'), strict=True
    ):
        cut_before(run, where, step)

    found = verdict(*runs)

    assert found.kind == "cut off" and found.first is None
    assert f"the candidate's of step {steps[0]}" in found.sentence
    assert f"the baseline's of step {steps[1]}" in found.sentence
    assert found.sentence.endswith(" records that could be read of both runs agree.")


@SIDES
def test_no_call_is_blamed_for_records_that_are_lost(record, side):
    """Step 1 starts from weights whose optimizer is lost with the end of step 0; its own argument is the answer."""
    damaged, whole = record("damaged", eps=1e-2), record("whole")
    cut_before(damaged, '"Functional.layer_norm.0.forward"')

    found = verdict(damaged, whole, side)

    assert found.sentence.startswith(f"The {side}'s file of the records of step 0 is damaged; step 1, rank 0: ")
    assert (found.kind, found.first.record) == ("argument", "Functional.layer_norm.0.forward")
    assert "only the" not in found.sentence and not any(each.kind == "another call" for each in found.also)


@SIDES
def test_what_only_lost_records_could_explain_is_left_open(record, side):
    damaged, whole = record("damaged", moved=0.1), record("whole")
    cut_before(damaged, '"Functional.layer_norm.0.forward"')

    found = verdict(damaged, whole, side)

    assert found.kind == "cannot tell" and found.first is None, found.sentence
    assert found.sentence.endswith(" shows a difference, which what is lost may explain.")
    assert found.advice.startswith("Copy the file again")


@SIDES
def test_a_record_that_cannot_be_used_is_no_missing_gradient(record, side):
    damaged, whole = record("damaged"), record("whole")
    file = file_of(damaged)
    document = json.loads(file.read_text())
    name = next(name for name in document["data"] if name.startswith("Tensor.add_") or "._foreach_add_" in name)
    document["data"][name]["input_args"] = [{"type": "torch.Tensor", "dtype": 7}]
    file.write_text(json.dumps(document))

    found = verdict(damaged, whole, side)

    assert found.kind == "cut off" and found.first is None, found.sentence
    assert found.sentence.startswith(f"The {side}'s file of the records of step 0 is damaged; the ")


@SIDES
def test_a_damaged_file_of_modules_around_calls_is_no_agreement(record, side):
    damaged, whole = record("damaged"), record("whole")
    file = file_of(damaged, name="construct.json")
    file.write_bytes(file.read_bytes()[:200])

    found = verdict(damaged, whole, side)

    assert found.kind == "cut off"
    assert found.sentence.startswith(f"The {side}'s construct.json of step 0 is damaged; the ")
    assert found.sentence.endswith(" records that could be paired agree.")


def test_a_file_of_modules_that_is_something_else_is_damaged(record):
    damaged, whole = record("damaged"), record("whole")
    file_of(damaged, name="construct.json").write_text("[]")

    found = verdict(damaged, whole)

    assert found.sentence.startswith("The candidate's construct.json of step 0 is damaged; ")


def test_a_damaged_file_of_saved_values_leaves_the_head_of_the_run(record):
    damaged, whole = record("damaged"), record("whole")
    file_of(damaged, name="debug.json").write_text('{"data": {"a')

    done = torchparity.compare(damaged, whole)

    assert not any("msprobe" in note for note in done.notes)
    assert done.verdict.kind == "cut off"


@SIDES
def test_an_operator_that_is_wrong_before_the_damage_is_named(record, side):
    damaged, whole = record("damaged", change=wrong_output(lambda y: y * 1.01)), record("whole")
    cut_before(damaged, '"Tensor.mean.0.forward"')

    found = verdict(damaged, whole, side)

    assert (found.kind, found.first.record) == ("operator", GELU)
    assert found.sentence.startswith(f"The {side}'s file of the records of step 0 is damaged; step 0, rank 0: ")


def as_journal(run):
    """Turn a step into what a killed process leaves, which tells no data flow; return the file."""
    file = file_of(run)
    document = json.loads(file.read_text())
    records, journal = document.pop("data"), file.with_name("journal.jsonl")
    document.pop("origins")
    lines = [[name, name.split(".")[-1], record] for name, record in records.items()]
    journal.write_text("".join(json.dumps(line) + "\n" for line in [document, *lines]))
    for name in ("dump.json", "construct.json", "stack.json"):
        file.with_name(name).unlink()
    return journal


def lose(journal, name):
    """Leave a line of a journal valid JSON, and its record of no use."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    lines = [[name, line[1], 5] if line[0] == name else line for line in lines if isinstance(line, list)]
    head = journal.read_text().splitlines()[0]
    journal.write_text("".join(line + "\n" for line in [head, *map(json.dumps, lines)]))


@pytest.fixture
def record_written_data(tmp_path):
    """Record a model of data that a call has changed in place; that call may be wrong."""

    def recorded(name, *, is_wrong=False):
        torch.manual_seed(0)
        model, data = nn.Linear(8, 8), torch.randn(4, 8)
        with capture(tmp_path / name, model=model, task="tensor"):
            data.cos_()
            if is_wrong:
                data.numpy()[0, 0] += 0.3
            model(data).sum().backward()
        return tmp_path / name

    return recorded


@SIDES
def test_a_line_of_a_journal_of_no_use_is_a_lost_record(record_written_data, side):
    damaged, whole = record_written_data("damaged"), record_written_data("whole", is_wrong=True)
    lose(as_journal(damaged), "Tensor.cos_.0.forward")

    found = verdict(damaged, whole, side)

    assert found.kind == "cannot tell" and found.first is None, found.sentence
    assert found.sentence.startswith(f"The {side}'s file of the records of step 0 is damaged; ")


def test_data_that_a_lost_record_may_have_made_are_not_blamed(record_written_data):
    runs = record_written_data("one"), record_written_data("other", is_wrong=True)
    for run in runs:
        lose(as_journal(run), "Tensor.cos_.0.forward")

    found = verdict(*runs)

    assert found.kind == "cannot tell" and found.first is None, found.sentence


@pytest.mark.parametrize("kept", [0, 1])
def test_a_journal_without_its_head_is_not_called_msprobe_s(record, kept):
    damaged, whole = record("damaged"), record("whole")
    journal = as_journal(damaged)
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(["damaged\n", *lines[1:]]) if kept else "")

    notes = torchparity.compare(damaged, whole).notes

    assert not any("msprobe" in note for note in notes)
