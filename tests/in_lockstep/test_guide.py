"""The examples in docs/lockstep.md run as printed, and print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.processes import ROOT

PAGE = (ROOT / "docs" / "lockstep.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
FIXTURE = """import torch
from torch import nn


class PlainAttention(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.project = nn.Linear(64, 64)

    def forward(self, x):
        x = self.project(x)
        return nn.functional.scaled_dot_product_attention(x, x, x)


class FusedAttention(PlainAttention):
    pass


"""


def test_every_example_is_followed_by_what_it_prints():
    assert len(EXAMPLES) == PAGE.count("```python") == 2


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_prints_what_the_page_says(number, tmp_path):
    code, printed = EXAMPLES[number]
    (tmp_path / "example.py").write_text(code)

    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True)

    assert done.stdout == printed, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["example.py"]


def test_the_test_with_the_fixture_passes(tmp_path):
    (code,) = re.findall(r"^```text\n(def test_.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "test_example.py").write_text(FIXTURE + code)

    installed_or_not = ["-p", "no:torchparity", "-p", "torchparity.integrations.pytest"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *installed_or_not],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert "1 passed" in done.stdout, done.stdout
