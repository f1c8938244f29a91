"""Thresholds by dtype, and what a preheat makes of them."""

from __future__ import annotations

import logging
import math

import pytest
import torch

from tests.support.perturbing import perturbing, rows_in, same
from torchparity import PrecisionDebugger
from torchparity.perturb.thresholds import LearnedThresholds, threshold_of

F32 = torch.float32


@pytest.mark.parametrize(
    ("dtype", "threshold"),
    [(torch.float16, 0.002), (torch.bfloat16, 0.004), (F32, 0.0002), (torch.float64, 0.0002), (torch.int64, 0.0002)],
)
def test_a_result_s_dtype_has_msprobe_s_threshold(dtype, threshold):
    assert threshold_of(dtype, None) == threshold


def test_a_result_may_move_by_two_units_of_its_input_and_one_of_its_own():
    """For bfloat16 alone that is more than the threshold."""
    unit = {dtype: torch.finfo(dtype).eps for dtype in (torch.bfloat16, torch.float16, F32)}
    assert unit[torch.bfloat16] == 2.0**-7

    assert threshold_of(torch.bfloat16, unit[torch.bfloat16]) == 2 * unit[torch.bfloat16]
    assert threshold_of(F32, unit[torch.bfloat16]) == 2 * unit[torch.bfloat16]
    assert threshold_of(torch.bfloat16, unit[F32]) == unit[torch.bfloat16]
    assert threshold_of(torch.float16, unit[torch.float16]) == 0.002
    assert threshold_of(F32, unit[F32]) == 0.0002


@pytest.mark.parametrize("mode", ["bit_noise", "add_noise"])
def test_rounding_to_bfloat16_is_no_finding(mode, tmp_path):
    torch.manual_seed(0)
    values = torch.randn(1_000_000)
    assert not same(values.bfloat16(), values.nextafter(torch.tensor(9.0)).bfloat16())  # some round the other way

    with perturbing(tmp_path, pert_mode=mode):
        values.bfloat16()

    assert rows_in(tmp_path) == []


@pytest.mark.parametrize("mode", ["bit_noise", "add_noise"])
def test_the_threshold_is_that_of_the_tensors_that_move(mode, tmp_path):
    wide, narrow = torch.tensor([9984.2]), torch.tensor([9984.0]).bfloat16()

    with perturbing(tmp_path, pert_mode=mode):
        torch.mul(wide, narrow)  # moves by what the bfloat16 number moves by, where it does
        torch.sub(wide, narrow)  # moves by 0.005 where the float32 number alone moves

    assert [row["api_name"] for row in rows_in(tmp_path)] == ["Torch.sub.0.forward"]


def sampled(thresholds, steps, calls):
    return {step: [number for number in range(calls) if thresholds.wants("Torch.exp", step)] for step in range(steps)}


def test_each_step_samples_other_calls_until_there_are_enough():
    thresholds = LearnedThresholds(steps=4, most=6)

    taken = sampled(thresholds, 6, calls=5)

    assert [len(taken[step]) for step in range(4)] == [2, 2, 2, 0]  # 6 in all
    assert set(taken[0]) | set(taken[1]) | set(taken[2]) == set(range(5))
    assert taken[4] == taken[5] == [0, 1, 2, 3, 4]  # afterwards every call is judged


def test_an_api_s_own_level_is_allowed_after_the_preheat():
    thresholds = LearnedThresholds(steps=1, most=10)
    for deviation in (0.01, 0.02, 0.01):
        assert thresholds.wants("Torch.exp", 0)
        assert thresholds.exceeds("Torch.exp", 0, F32, 0.0002, deviation)  # while it learns msprobe's hold

    assert thresholds.wants("Torch.exp", 1) and thresholds.wants("Torch.log", 1)
    assert not thresholds.exceeds("Torch.exp", 1, F32, 0.0002, 0.03)
    assert thresholds.exceeds("Torch.exp", 1, F32, 0.0002, 0.05)
    assert thresholds.exceeds("Torch.log", 1, F32, 0.0002, 0.03)  # each API its own
    assert thresholds.exceeds("Torch.exp", 1, torch.float16, 0.002, 0.03)  # and each dtype


def test_an_infinite_deviation_is_no_level():
    thresholds = LearnedThresholds(steps=1, most=10)
    for deviation in (math.inf, math.inf, 0.001):
        thresholds.wants("Torch.exp", 0)
        thresholds.exceeds("Torch.exp", 0, F32, 0.0002, deviation)

    thresholds.wants("Torch.exp", 1)

    assert thresholds.exceeds("Torch.exp", 1, F32, 0.0002, math.inf)
    assert thresholds.exceeds("Torch.exp", 1, F32, 0.0002, 0.1)
    assert not thresholds.exceeds("Torch.exp", 1, F32, 0.0002, 0.0015)


def test_one_deviation_far_above_the_others_is_no_level():
    thresholds = LearnedThresholds(steps=1, most=10)
    for deviation in (1e-5, 1e-5, 0.5):
        thresholds.wants("Torch.exp", 0)
        thresholds.exceeds("Torch.exp", 0, F32, 0.0002, deviation)

    thresholds.wants("Torch.exp", 1)

    assert thresholds.exceeds("Torch.exp", 1, F32, 0.0002, 0.1)


def test_a_preheated_training_reports_only_what_is_unusual(tmp_path, caplog):
    caplog.set_level(logging.INFO, "torchparity")
    torch.manual_seed(0)
    debugger = PrecisionDebugger(
        task="free_benchmark", dump_path=tmp_path, pert_mode="bit_noise", if_preheat=True, preheat_step=3, max_sample=6
    )
    usual = torch.rand(2000) + 10
    for step in range(5):
        debugger.start()
        torch.sub(usual, usual.roll(1) * 0.999)  # the same cancellation in every step
        if step == 4:
            torch.sub(torch.tensor([1e7 + 1]), 1e7)
        debugger.stop()
        debugger.step()

    rows = [(row["step"], row["api_name"]) for row in rows_in(tmp_path)]

    assert [row for row in rows if row[0] in "34"] == [("4", "Torch.sub.1.forward")]
    assert ("0", "Torch.sub.0.forward") in rows  # msprobe's thresholds hold while it learns
    line = "torchparity: Free benchmark: preheat sample in step 1 api_name Torch.sub.0.forward curr_called_seq: 2/6"
    assert line in caplog.text


def test_a_call_that_is_left_out_is_no_sample(tmp_path):
    debugger = PrecisionDebugger(
        task="free_benchmark", dump_path=tmp_path, pert_mode="bit_noise", if_preheat=True, preheat_step=2, max_sample=1
    )
    for values in (torch.tensor([1]), torch.tensor([1e7 + 1])):  # integers alone in the first step
        debugger.start()
        torch.sub(values, 1e7)
        debugger.stop()
        debugger.step()

    assert [row["step"] for row in rows_in(tmp_path)] == ["1"]


@pytest.mark.parametrize(("other", "is_found"), [(3.0, False), (7.0, True)])
def test_cancellation_in_bfloat16_is_found_where_the_result_moves_farther_than_twice_the_input(
    other, is_found, tmp_path
):
    values = torch.tensor([8.0]).bfloat16()

    with perturbing(tmp_path, pert_mode="bit_noise", list=["sub"]):
        torch.sub(values, other)

    assert bool(rows_in(tmp_path)) is is_found
