"""Calls of several steps and ranks: each kind once, and whole what is named."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import torchparity
from torchparity.check.chosen import chosen_cases
from torchparity.check.source import RunSource
from torchparity.errors import ConfigError, DamagedFileError, NotRecordedError


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run of two ranks and three steps; every part has two calls of exp, and step 2 another shape too."""
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        with torchparity.capture(tmp_path / "run", level="L1") as recording:
            for step in range(3):
                torch.exp(torch.full((3,), float(step)))
                torch.exp(torch.full((3,), float(rank)))
                if step == 2:
                    torch.exp(torch.zeros(5 + rank))
                recording.step()
    return tmp_path / "run"


def exponentials(source, *, filter_duplicates=False):
    cases = chosen_cases(source, filter_duplicates=filter_duplicates).cases
    return [(case.part.step, case.part.rank, case.name) for case in cases if case.operator == "exp"]


def test_the_first_part_is_taken_whole_and_of_the_others_what_is_new(run):
    assert exponentials(RunSource(path=run)) == [
        (0, 0, "Torch.exp.0"),
        (0, 0, "Torch.exp.1"),
        (2, 0, "Torch.exp.2"),
        (2, 1, "Torch.exp.2"),
    ]


def test_what_is_left_out_is_one_sentence(run):
    everything = chosen_cases(RunSource(path=run, steps="all", ranks="all"), filter_duplicates=False)
    chosen = chosen_cases(RunSource(path=run), filter_duplicates=False)

    missing = len(everything.cases) - len(chosen.cases)
    assert chosen.left_out == (
        f"Left out: {missing} calls of other steps and ranks, which differ in nothing but their values from calls that "
        "were checked; --step all --rank all checks them too."
    )
    assert everything.left_out == ""


@pytest.mark.parametrize(
    ("named", "counts"),
    [
        ({"steps": frozenset({1})}, {(1, 0): 2}),
        ({"steps": frozenset({1, 2})}, {(1, 0): 2, (2, 0): 3, (2, 1): 1}),
        ({"ranks": frozenset({1})}, {(0, 1): 2, (2, 1): 1}),
        ({"ranks": "all"}, {(0, 0): 2, (0, 1): 2, (2, 0): 1, (2, 1): 1}),
        ({"steps": frozenset({2}), "ranks": frozenset({1})}, {(2, 1): 3}),
        ({"steps": "all", "ranks": "all"}, {(0, 0): 2, (0, 1): 2, (1, 0): 2, (1, 1): 2, (2, 0): 3, (2, 1): 3}),
    ],
)
def test_what_is_named_is_taken_whole(run, named, counts):
    taken = exponentials(RunSource(path=run, **named))

    assert Counter((step, rank) for step, rank, _ in taken) == counts


def test_filtering_leaves_one_of_each_kind_whatever_is_named(run):
    source = RunSource(path=run, steps="all", ranks="all")

    assert exponentials(source, filter_duplicates=True) == [
        (0, 0, "Torch.exp.0"),
        (2, 0, "Torch.exp.2"),
        (2, 1, "Torch.exp.2"),
    ]


def test_one_step_of_one_rank_has_nothing_left_out(run):
    chosen = chosen_cases(RunSource(path=run / "step0" / "rank0"), filter_duplicates=False)

    assert chosen.left_out == "" and not chosen.has_many_parts


@pytest.mark.parametrize("named", [{"steps": frozenset({0, 7})}, {"ranks": frozenset({5})}])
def test_a_step_or_rank_that_was_not_recorded_is_said(run, named):
    with pytest.raises(NotRecordedError, match=r"'7'|'5'"):
        chosen_cases(RunSource(path=run, **named), filter_duplicates=False)


def test_a_part_that_cannot_be_read_costs_no_other(run):
    (run / "step1" / "rank0" / "dump.json").write_text("{")
    chosen = chosen_cases(RunSource(path=run), filter_duplicates=False)

    assert len(chosen.problems) == 1 and "step1" in chosen.problems[0]
    assert len(chosen.cases) >= 4


def test_where_no_part_can_be_read_the_check_says_so(run):
    for dump in run.glob("step*/rank*/dump.json"):
        dump.write_text("{")

    with pytest.raises(DamagedFileError, match="step0"):
        chosen_cases(RunSource(path=run), filter_duplicates=False)


def test_modules_alone_cannot_be_checked(tmp_path):
    model = torch.nn.Linear(2, 2)
    with torchparity.capture(tmp_path, level="L0", model=model):
        model(torch.ones(2))

    with pytest.raises(ConfigError, match="level L0"):
        chosen_cases(RunSource(path=tmp_path), filter_duplicates=False)
