"""The numbers of the judge: in one file, and all of them named in the docs."""

from __future__ import annotations

import ast
import re

from tests.support.processes import ROOT
from torchparity.comparing.judging import figures
from torchparity.comparing.precision import figures as figures_of_rounding

JUDGING = ROOT / "src" / "torchparity" / "comparing" / "judging"
# A number that is torch's, by which a call of clip_grad_norm_ is known.
OF_TORCH = {"_CLIP_EPSILON"}


def constants(module):
    return {name for name, value in vars(module).items() if name.isupper() and isinstance(value, (int, float, tuple))}


def numbers_in(path):
    """Return the names that a file gives to numbers with a decimal point."""
    for node in ast.parse(path.read_text()).body:
        if (
            isinstance(node, ast.Assign)
            and not isinstance(node.value, ast.Call)
            and any(isinstance(part, ast.Constant) and isinstance(part.value, float) for part in ast.walk(node.value))
        ):
            yield ast.unparse(node.targets[0])


def test_docs_name_every_number_of_the_judge():
    page = (ROOT / "docs" / "verdicts.md").read_text().partition("## The numbers of the judge")[2]
    imported = {"ESTIMATE", "TF32_UNIT", "UNKNOWN_GAIN"}

    assert set(re.findall(r"\b[A-Z][A-Z0-9_]{5,}\b", page)) == constants(figures) - imported


def test_docs_name_no_number_that_is_not_there():
    page = (ROOT / "docs" / "precision.md").read_text()
    named = set(re.findall(r"\b[A-Z]+_[A-Z_]+\b|\bMASKING\b", page))

    assert named
    assert named <= constants(figures_of_rounding) | constants(figures)


def test_no_number_of_the_judge_stands_elsewhere():
    files = [path for path in JUDGING.rglob("*.py") if path.name != "figures.py"]

    assert {name for path in files for name in numbers_in(path)} == OF_TORCH
