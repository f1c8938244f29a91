"""summary_mode xor: a checksum in place of statistics."""

from __future__ import annotations

import json

import pytest
import torch

from torchparity import open_run
from torchparity.recording import capture


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_summary_mode_xor_has_a_checksum_and_no_statistics(tmp_path, task):
    with capture(tmp_path, task=task, summary_mode="xor"):
        torch.exp(torch.ones(2))

    part = open_run(tmp_path).part()
    entry = json.loads((tmp_path / "step0/rank0/dump.json").read_text())["data"]["Torch.exp.0.forward"]["output"][0]

    leaf = part.records["Torch.exp.0.forward"].output[0]
    assert leaf.statistics is None and leaf.checksum.startswith("0x")
    assert entry["md5"] == leaf.checksum and "Max" not in entry
    assert (leaf.stored_in is not None) == (task == "tensor")
