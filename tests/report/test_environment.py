"""The environment in lines for people."""

from __future__ import annotations

from torchparity.report.environment import changes, environment_lines


def test_keys_that_begin_alike_share_a_line():
    lines = environment_lines({"torch": "2.13.0", "torch.git": "cf30", "tf32.matmul": "off", "tf32.conv": "on"})

    assert lines == [("torch", "2.13.0, git cf30"), ("tf32", "matmul off, conv on")]


def test_changes_are_what_is_set_otherwise_but_for_seeds():
    first = {"threads": "2", "autocast": "off", "seed": "1", "seed.cuda": "1"}

    text = changes({"threads": "4", "tf32.conv": "on", "seed": "2", "seed.cuda": "2"}, first)

    assert text == "threads 4, autocast not set, tf32.conv on"
