"""The closing line of task free_benchmark: one part for all that was left out."""

from __future__ import annotations

import torch

from tests.support.perturbing import perturbing


def test_several_reasons_are_told_with_their_numbers(tmp_path, capsys):
    with perturbing(tmp_path, pert_mode="bit_noise"):
        torch.rand(3)
        torch.ones(3)
        torch.ones(4)
        torch.argmax(torch.ones(3, dtype=torch.int64))

    said = capsys.readouterr().out
    assert said.count("left out") == 1
    assert "it has no tensor (4)" in said
