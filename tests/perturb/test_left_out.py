"""The closing line of task free_benchmark: one part for all that was left out."""

from __future__ import annotations

import pytest
import torch

from tests.support.perturbing import perturbing
from torchparity import PrecisionDebugger


def test_several_reasons_are_told_with_their_numbers(tmp_path, capsys):
    with perturbing(tmp_path, pert_mode="bit_noise"):
        torch.rand(3)
        torch.ones(3)
        torch.ones(4)
        torch.argmax(torch.ones(3, dtype=torch.int64))

    said = capsys.readouterr().out
    assert said.count("left out") == 1
    assert "it has no tensor (4)" in said


def test_calls_beyond_the_most_of_an_api_are_counted(tmp_path, capsys):
    with perturbing(tmp_path, pert_mode="bit_noise", list=["Torch.exp"], max_calls_per_api=2):
        for _ in range(5):
            torch.ones(3).exp()
            torch.exp(torch.ones(3))

    said = capsys.readouterr().out
    assert "perturbed 2 calls" in said
    assert "3 calls beyond max_calls_per_api 2" in said


def test_nothing_is_told_of_calls_beyond_where_there_are_none(tmp_path, capsys):
    with perturbing(tmp_path, pert_mode="bit_noise", list=["Torch.exp"], max_calls_per_api=2):
        torch.exp(torch.ones(3))
        torch.exp(torch.ones(3))

    assert "beyond max_calls_per_api" not in capsys.readouterr().out


@pytest.mark.parametrize(("steps", "lasts"), [(5, True), (1, False)])
def test_calls_that_a_preheat_passes_over_are_counted(steps, lasts, tmp_path, capsys):
    values = torch.ones(3)
    debugger = PrecisionDebugger(
        task="free_benchmark",
        dump_path=tmp_path,
        pert_mode="bit_noise",
        if_preheat=True,
        preheat_step=steps,
        max_sample=1,
    )
    for _ in range(2):
        debugger.start()
        for _ in range(4):
            values.exp()
        debugger.stop()
        debugger.step()
    debugger.close()

    said = capsys.readouterr().out
    unsampled = 7 if lasts else 3
    assert f"; {unsampled} calls not sampled by the preheat" in said
    assert ("which has not ended" in said) == lasts
