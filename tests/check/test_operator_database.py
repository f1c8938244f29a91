"""One in twenty entries of PyTorch's operator database through the check."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.processes import ROOT


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    found = tmp_path_factory.mktemp("database") / "entries.json"
    command = [sys.executable, "-W", "ignore", "-m", "tests.check.operator_database"]
    command += ["--every", "20", "--samples", "1", "--json", str(found)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return json.loads(found.read_text())


def test_no_entry_is_failed_in_float32(entries):
    failed = [entry for entry in entries if entry["dtype"] == "float32" and entry["status"] == "error"]

    assert len(entries) > 100
    assert failed == []


def test_nine_of_ten_are_judged_and_the_others_say_why(entries):
    judged = [entry for entry in entries if entry["status"] in ("pass", "warning", "error")]

    assert len(judged) >= 0.9 * len(entries)
    assert all(entry["reasons"] for entry in entries if entry not in judged)
