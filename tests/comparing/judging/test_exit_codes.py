"""The exit code of each kind of verdict, and the table of them in docs/verdicts.md."""

from __future__ import annotations

import re

import pytest

from tests.support.processes import ROOT
from torchparity.comparing import Finding, Kind, Verdict, exit_code

PAGE = (ROOT / "docs" / "verdicts.md").read_text()
CODES = re.findall(r"^\| (\w[^|`]*?) \| ([01]) \| ([01]) \| ([01]) \|$", PAGE, re.MULTILINE)
WITHIN_ROUNDING = "argument, its effect within rounding"
REST_AGREES = "batch size, the rest agrees"


def verdict(kind: Kind, *, is_shown: bool = True) -> Verdict:
    first = Finding(
        kind=kind,
        step=0,
        rank=0,
        row=0,
        record="Torch.exp.0.forward",
        baseline_record="Torch.exp.0.forward",
        item="output.0",
        is_shown=is_shown,
    )
    return Verdict(kind=kind, sentence="", first=None if kind in (Kind.AGREE, Kind.UNKNOWN) else first)


def test_the_page_has_every_kind_once():
    assert sorted(name for name, *_ in CODES) == sorted([*(kind.value for kind in Kind), WITHIN_ROUNDING, REST_AGREES])


@pytest.mark.parametrize(("name", "divergence", "any_row", "never"), CODES, ids=[name for name, *_ in CODES])
def test_the_page_says_what_the_function_returns(name, divergence, any_row, never):
    judged = verdict(Kind(name.partition(",")[0]), is_shown=name != WITHIN_ROUNDING)
    if name == REST_AGREES:
        judged = Verdict(kind=Kind.BATCH, sentence="")

    said = {"divergence": int(divergence), "any": int(any_row), "never": int(never)}
    assert {fail_on: exit_code(judged, fail_on, has_differences=False) for fail_on in said} == said


def test_a_row_that_differs_counts_for_any_alone():
    codes = [
        exit_code(verdict(Kind.AGREE), fail_on, has_differences=True) for fail_on in ("divergence", "any", "never")
    ]

    assert codes == [0, 1, 0]


def test_the_page_has_an_example_of_every_kind():
    examples = dict(re.findall(r"^\| (\w[^|`]*?) \| `([^|]+)` \|", PAGE, re.MULTILINE))

    assert {kind.value for kind in Kind} <= examples.keys()
