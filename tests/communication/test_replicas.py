"""DDP's law: ranks with the same parameters feed their optimizers the same. Ranks are recorded one after the other."""

from __future__ import annotations

import math
import shutil

import pytest
import torch
from torch import nn

from torchparity import capture
from torchparity.communication.entry import check_laws


def train(path, data, *, seed=0, trained=slice(None), scale=1.0, at_first=1.0, gradient=None, updates=2, logs=False):
    """Record two steps of a small model; its weights and a gradient are changed unseen."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 2))
    nn.init.zeros_(model[0].bias)
    model[2].weight.data.mul_(at_first)
    optimizer = torch.optim.SGD(list(model.parameters())[trained], lr=0.1, momentum=0.9)
    with capture(path, model=model, level="mix") as recording:
        for step in range(2):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            if gradient is not None:
                with torch._C.DisableTorchFunction():
                    model[2].weight.grad[0, 0] = gradient
            if logs:
                torch.zeros(6).add_(torch.ones(6)).mul_(2)
            if step < updates:
                optimizer.step()
            recording.step()
            with torch._C.DisableTorchFunction(), torch.no_grad():
                model[2].weight.mul_(scale)


@pytest.fixture
def job(tmp_path):
    """The report on a job whose ranks were trained with these settings each."""

    def report(*ranks):
        for rank, settings in enumerate(ranks):
            train(tmp_path / "alone", **settings)
            for step in range(2):
                place = tmp_path / "run" / f"step{step}" / f"rank{rank}"
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(tmp_path / "alone" / f"step{step}" / "rank0", place)
            shutil.rmtree(tmp_path / "alone")
        return check_laws(tmp_path / "run")

    return report


SAME, OTHER = ({"data": torch.linspace(-1, 1, 12).reshape(3, 4) * factor} for factor in (1, 2))


def test_replicas_that_read_the_same_gradients_keep_the_law(job):
    report = job(SAME, SAME, SAME)

    assert report.broken == [] and report.unchecked == []
    assert report.held["replicas"] > 2 * 6


def test_gradients_that_were_never_reduced_break_it(job):
    report = job(SAME, OTHER, SAME)

    gradients, parameters, *_ = report.broken
    assert (gradients.law, gradients.step, gradients.ranks, gradients.group) == ("replicas", 0, (1,), (0, 1, 2))
    assert "is not what the optimizer of rank 0 reads" in gradients.sentence()
    assert (parameters.step, parameters.ranks) == (1, (1,)) and "(parameter 0.weight)" in parameters.sentence()


def test_where_all_others_agree_the_first_rank_is_the_odd_one(job):
    first = job(OTHER, SAME, SAME).broken[0]

    assert first.ranks == (0,) and "is not what the optimizer of the other ranks reads" in first.sentence()


def test_weights_that_change_on_one_rank_break_it(job):
    first, *_ = job(SAME, SAME | {"scale": 1.01}).broken

    assert (first.step, first.ranks, first.item) == (1, (1,), "input.1")
    assert "(parameter 2.weight) is not what rank 0 has" in first.sentence()


def test_shards_are_no_replicas_although_their_constant_parameters_are_equal(job):
    report = job(SAME, SAME | {"seed": 1})

    assert report.broken == []
    assert [law.reason for law in report.unchecked] == [
        "the parameters differ over ranks, as those of shards and of stages do"
    ]


def test_an_optimizer_that_holds_a_part_on_each_rank_is_left_out_and_said(job):
    report = job(SAME | {"trained": slice(0, 3)}, SAME | {"trained": slice(3, None)})

    assert [law.reason for law in report.unchecked] == [
        "the optimizers hold other parameters on each rank, as of shards"
    ]
    assert all("parameter" in law.clause for law in report.broken)  # nobody sent the parts to the other rank
    assert report.broken[0].step == 1


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_on_one_rank_breaks_it(number, job):
    first, *_ = job(SAME, SAME | {"gradient": number}, SAME).broken

    assert (first.step, first.ranks) == (0, (1,)) and "it has nan or inf where it must be finite" in first.sentence()


def test_gradients_that_are_nan_alike_keep_it(job):
    report = job(*[SAME | {"gradient": math.nan}] * 2)

    assert report.broken == [] and report.held["replicas"] > 0


def test_a_rank_that_differs_when_the_recording_begins_is_named(job):
    report = job(SAME, SAME, SAME | {"at_first": 1.01})

    assert report.broken == []
    assert [law.reason for law in report.unchecked] == [
        "rank 2 is left out, whose parameter 2.weight is not that of rank 0 when the recording begins"
    ]


def test_an_update_that_one_rank_leaves_out_does_not_count_as_checked(job):
    report = job(SAME, SAME | {"updates": 1})

    assert report.broken == []
    assert {law.reason for law in report.unchecked} == {"the optimizer of rank 1 has no such call"}
    assert {law.step for law in report.unchecked} == {1}


def test_calls_of_one_rank_alone_beside_the_optimizer_do_not_shift_its_own(job):
    report = job(SAME | {"logs": True}, SAME)

    assert report.broken == [] and report.unchecked == []
