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
    assert "it is given no tensor (4)" in said


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


@pytest.mark.parametrize("significance", [0, 2])
def test_memory_that_nobody_has_written_is_not_compared(significance, tmp_path, capsys):
    mode = {"significance": 2} if significance else {"pert_mode": "no_change"}
    with perturbing(tmp_path, **mode):
        for size in range(4, 40):
            torch.ones(2).resize_(size)
            torch.ones(2).resize_as_(torch.ones(size))

    assert "it returns memory that nobody has written" in capsys.readouterr().out


def test_calls_that_raise_leave_their_places_to_others(tmp_path, capsys):
    with perturbing(tmp_path, pert_mode="no_change", list=["matmul"], max_calls_per_api=2):
        for _ in range(2):
            with pytest.raises(RuntimeError):
                torch.matmul(torch.ones(2, 3), torch.ones(2, 3))
        for _ in range(3):
            torch.matmul(torch.ones(2, 3), torch.ones(3, 2))

    said = capsys.readouterr().out
    assert "perturbed 2 calls" in said and "1 call beyond max_calls_per_api 2" in said


def test_a_text_in_two_spellings_is_called_in_both(tmp_path, capsys):
    with perturbing(tmp_path, pert_mode="no_change", list=["Exp", "exp"]):
        torch.exp(torch.ones(3))

    assert "never called" not in capsys.readouterr().out


def test_the_hint_for_a_text_does_not_depend_on_its_capitals(tmp_path, capsys):
    with perturbing(tmp_path, pert_mode="no_change", list=["Lineer"]):
        torch.exp(torch.ones(3))

    assert "never called in a step: Lineer (Did you mean 'linear'?)" in capsys.readouterr().out


def test_switches_of_torch_are_no_calls_that_are_left_out(tmp_path, capsys):
    with perturbing(tmp_path, pert_mode="no_change"), torch.no_grad():
        torch.exp(torch.ones(3))

    assert "1 call left out" in capsys.readouterr().out  # the factory


def test_operators_of_the_user_with_names_of_torch_s_own_are_checked(tmp_path, capsys):
    @torch.library.custom_op("torchparity_left_out::resize", mutates_args=())
    def resize(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch.library.custom_op("torchparity_left_out::device", mutates_args=())
    def device(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    with perturbing(tmp_path, pert_mode="no_change", list=["torchparity_left_out"]):
        torch.ops.torchparity_left_out.resize(torch.ones(3))
        torch.ops.torchparity_left_out.device(torch.ones(3))

    assert "perturbed 2 calls" in capsys.readouterr().out
