"""The table of everything that the five documents print: nothing in it is without a test or a reason."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from tests.seeds.samples import SEEDS, needs_seeds
from tests.support.processes import ROOT
from tools.seed_reasons import REASONS
from tools.seed_table import PAGE, form_of, main, rows, without_test
from tools.seed_words import Printed, printed


@pytest.fixture(scope="module")
def table():
    return rows(SEEDS)


@needs_seeds
def test_everything_printed_has_a_test_or_a_reason(table):
    assert without_test(table) == []


@needs_seeds
def test_every_reason_is_of_something_printed(table):
    names = {kind: [row.printed.name for row in table if row.printed.kind == kind] for kind in REASONS}

    for kind, reasons in REASONS.items():
        for pattern, why in reasons.items():
            assert any(fnmatchcase(name, pattern) for name in names[kind]), f"nobody prints the {kind} {pattern}"
            assert len(why) > 5


@needs_seeds
def test_the_page_has_every_row_and_its_tests_exist(table):
    page = PAGE.read_text(encoding="utf-8")

    for row in table:
        assert f"| `{row.printed.name}` |" in page, "run `python -m tools.seed_table`"
    for file, test in set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)):
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), "run `python -m tools.seed_table`"


@needs_seeds
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("function", "register_acc_cmp_hook"),
        ("function", "update_config"),
        ("command", "msprobe merge_result"),
        ("flag", "-dm"),
        ("flag", "--config-path"),
        ("field", "is_print_compare_log"),
        ("field", "preheat_step"),
        ("value", "to_cpu"),
        ("file", "compare_result_rank{rank_id}_{timestamp}.json"),
        ("column", "Accuracy Reached or Not"),
        ("column", "output_index"),
        ("word", "Unmatched"),
        ("message", "No bench data matched."),
        ("name", "ut_error_data"),
    ],
)
def test_each_kind_of_name_is_found(table, kind, name):
    assert Printed(kind, name) in [row.printed for row in table]


def test_what_no_test_knows_is_listed(tmp_path):
    document = "Use `--sideways`, 参数为never_seen_field, and see never_{timestamp}.xlsx; 标记为 `Perhaps`.\n"
    (tmp_path / "000_new.txt").write_text(document, encoding="utf-8")

    assert without_test(rows(tmp_path)) == [
        "flag --sideways",
        "field never_seen_field",
        "file never_{timestamp}.xlsx",
        "word Perhaps",
    ]


@pytest.mark.parametrize(
    ("kind", "name", "text", "is_there"),
    [
        ("flag", "-s", '["compare", "-s"]', True),
        ("flag", "-s", '["compare", "-st"]', False),
        ("field", "step", "run(step=[1])", True),
        ("field", "step", "the next step comes", False),
        ("word", "No", 'row["Result"] == "No"', True),
        ("word", "No", "No row has it", False),
        ("file", "advisor_{timestamp}.txt", 'glob("advisor_*.txt")', True),
        ("file", "advisor_{timestamp}.txt", 'glob("advisor_*.csv")', False),
        ("column", "rank*", '{"rank0"}', True),
    ],
)
def test_a_name_counts_in_the_form_of_its_kind_alone(kind, name, text, is_there):
    assert form_of(Printed(kind, name))(text) is is_there


def test_one_name_of_two_documents_is_one_row(tmp_path):
    for number in (0, 3):
        (tmp_path / f"00{number}_page.txt").write_text("```python\nfrom msprobe import go\ngo()\n```\n")

    assert printed(tmp_path)[Printed("function", "go")] == [0, 3]


def test_without_documents_the_page_stays_as_it_is(tmp_path, capsys):
    before = PAGE.read_text(encoding="utf-8")

    assert main([str(tmp_path)]) == 2

    assert "has no documents" in capsys.readouterr().err
    assert PAGE.read_text(encoding="utf-8") == before
