"""The page of the bed's results."""

from __future__ import annotations

import pytest

from tests.faultbed.cases import TASKS
from tests.faultbed.table import page

FAULT = {
    "id": "llama/noise/large/plain/tensor",
    "model": "llama",
    "kind": "noise",
    "strength": "large",
    "task": "tensor",
    "baseline": "plain",
    "held_out": False,
    "ulps": 80000.0,
    "truth_records": ["Functional.linear.3.forward"],
    "truth_kinds": ["operator"],
    "truth_step": 0,
    "first_in_bits": "Functional.linear.3.forward",
    "confirmed": True,
    "void": False,
    "said_kind": "data",
    "headline": "First difference: " + "Module.a.very.long.path." * 12,
    "named": False,
    "record_right": False,
    "kind_right": False,
    "rule_right": True,
}
PAIR = {"id": "clean/cnn/again/tensor", "model": "cnn", "clean": "again", "task": "tensor", "blamed": True}
CLEAN = PAIR | {"said_kind": "operator", "headline": "First divergence: Torch.empty.0.forward"}


def section(text, title):
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_a_miss_is_listed_with_what_was_said_and_its_reason():
    text = page([FAULT], {"llama/noise/large/plain": "the noise is small"})

    assert "`llama/noise/large/plain/tensor`" in section(text, "Misses")
    assert "the noise is small" in section(text, "Misses").replace("\n  ", " ")
    assert "| large | tensor | 1 | 0.0 % | 0.0 % | 0.0 % | 100.0 % |" in section(text, "All faults")


@pytest.mark.parametrize("change", [{"held_out": True}, {"baseline": "noisy"}, {"void": True}], ids=str)
def test_what_is_reported_apart_is_not_among_all_faults(change):
    text = page([FAULT | change], {})

    assert section(text, "All faults").strip() == "None."


def test_a_clean_pair_that_is_blamed_is_counted_and_told():
    text = section(page([CLEAN], {}), "Clean pairs")

    assert "| again | cnn | 1/1 | - |" in text
    assert "Torch.empty.0.forward" in text


def test_rows_and_columns_without_a_fault_are_left_out():
    text = page([FAULT | {"baseline": "noisy"}], {})

    rows = [line for line in section(text, "Through noise").splitlines() if line.startswith("|")]
    assert "near" not in "".join(rows) and "| large | tensor | 1 |" in "".join(rows)
    assert [row for row in rows if "| 0 |" in row] == []


def test_a_void_case_is_told_once_for_both_tasks():
    both = [FAULT | {"id": f"llama/noise/large/plain/{task}", "task": task, "void": True} for task in TASKS]

    text = section(page(both, {}), "Void")

    assert text.count("- `") == 1 and "`llama/noise/large/plain` (tensor, statistics): said data" in text


@pytest.mark.parametrize("word", ["plain", "noisy", "void", "not confirmed"])
def test_the_words_of_the_tables_are_explained(word):
    assert f"- *{word}*: " in page([FAULT], {}).partition("\n## ")[0]


def test_an_unconfirmed_truth_is_told():
    text = page([FAULT | {"confirmed": False, "first_in_bits": "Tensor.add.0.forward"}], {})

    assert "Tensor.add.0.forward differs first" in section(text, "Not confirmed")


def test_lines_are_as_short_as_those_of_other_pages():
    assert max(map(len, page([FAULT, CLEAN], {}).splitlines())) <= 120
