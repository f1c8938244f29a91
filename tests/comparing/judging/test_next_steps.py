"""Programs with one change: what the answer advises to do next, and that it blames nobody else."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import torchparity
from tests.faultbed.plant import wrong_output
from tests.support.planting import planted
from torchparity import Record, RunWriter
from torchparity.comparing.step_lines import step_lines
from torchparity.records import Statistics, TensorLeaf

GELU = "Functional.gelu.0.forward"
SIZE = TensorLeaf(
    dtype="torch.float32",
    shape=(2,),
    statistics=Statistics(max=1.0, min=1.0, mean=1.0, norm=2**0.5),
    requires_grad=False,
)


class Net(nn.Module):
    def __init__(self, between):
        super().__init__()
        self.up, self.down, self.between = nn.Linear(8, 16), nn.Linear(16, 4), between

    def forward(self, x):
        return self.down(self.between(functional.gelu(self.up(x))))


def training(*, change=None, between=lambda x: x, foreach=False, lr=0.1, clears=True):
    def make():
        model, x, label = Net(between), torch.randn(8, 8), torch.arange(8) % 4
        optimizer = torch.optim.Adam(model.parameters(), lr=lr, foreach=foreach)

        def step():
            if clears:
                optimizer.zero_grad()
            with planted(GELU, change):
                functional.cross_entropy(model(x), label).backward()
            optimizer.step()

        return model, step

    return make


def crash(x):
    raise RuntimeError("crash")


def spoil(x):
    x[0, 0] = math.nan
    return x


@pytest.fixture
def crashed(record, tmp_path):
    """The path of a run whose model raised in the middle of step 0."""
    with pytest.raises(RuntimeError, match="crash"):
        record("crashed", training(between=crash))
    return tmp_path / "crashed"


@pytest.mark.parametrize("side", ["candidate", "baseline"])
def test_a_run_that_crashed_is_said_to_be_cut_off(record, crashed, side):
    whole = record("whole", training())

    done = torchparity.compare(*((crashed, whole) if side == "candidate" else (whole, crashed)))

    found = done.verdict
    assert found.kind == "cut off" and found.first is None, found.sentence
    assert found.sentence.startswith(f"The {side} was cut off in step 0 by RuntimeError; the 3 records up to there")
    assert f"the last {GELU}, agree" in found.sentence and "traceback" in found.advice
    assert any("no loss" in line for line in step_lines(done.parts))


def test_what_differs_before_a_crash_is_still_named(record, crashed):
    whole = record("whole", training(change=wrong_output(lambda y: y * 1.01)))

    found = torchparity.compare(crashed, whole).verdict

    assert found.kind == "operator" and found.first.record == GELU, found.sentence
    assert found.sentence.startswith("The candidate was cut off in step 0 by RuntimeError; First divergence: ")


def test_foreach_in_one_run_is_what_was_not_compared(verdict):
    found = verdict(training(foreach=True), training(), steps=2)

    assert found.kind == "agree" and ", all in the optimizer, could not be compared" in found.sentence
    assert found.advice.startswith("The optimizers make other calls (foreach in one run): give both foreach=False")
    assert found.not_compared[0].isdigit()


def test_nan_of_a_forward_call_is_no_fault_of_its_gradient(verdict):
    found = verdict(training(change=wrong_output(lambda y: y * math.nan), foreach=True), training(), steps=2)

    assert found.first.record == GELU and found.also == (), found.also
    assert "inputs are the same in both, so this operator's kernel is wrong" in found.advice


def test_a_call_of_the_candidate_alone_says_what_it_did(verdict):
    found = verdict(training(between=spoil), training())

    assert found.kind == "another call" and "has nan in the candidate alone" in found.sentence, found.sentence
    assert "inf relative" not in found.sentence and found.advice.startswith("Only the candidate makes this call: ")


def test_a_call_of_the_baseline_alone_is_named_in_the_advice(verdict):
    found = verdict(training(), training(between=lambda x: x * 1.01))

    assert found.advice.startswith(f"Only the baseline calls {found.first.partner}: "), found.sentence
    assert found.first.partner.startswith("Tensor.mul")


@pytest.mark.parametrize("level", ["mix", "L1"])
def test_gradients_that_were_not_cleared_are_looked_for_there(verdict, level):
    found = verdict(training(clears=False), training(), steps=2, level=level)

    assert found.kind == "unrecorded step" and found.first.step == 1, found.sentence
    assert "zero_grad" in found.advice


def test_settings_of_the_optimizer_are_named(verdict):
    found = verdict(training(lr=0.2), training())

    assert found.first.module == "optimizer" and "lr, weight_decay, betas, eps, foreach" in found.advice


@pytest.mark.parametrize("first", [0, 1])
def test_weights_may_have_parted_before_the_recording(tmp_path, first):
    for name, scale in (("candidate", 1.01), ("baseline", 1.0)):
        torch.manual_seed(0)
        model = nn.Linear(8, 4)
        model.weight.data.mul_(scale)
        with torchparity.capture(tmp_path / name, model=model, step=[first]) as recording:
            for _ in range(2):
                model(torch.ones(2, 8))
                recording.step()

    found = torchparity.compare(tmp_path / "candidate", tmp_path / "baseline").verdict

    assert found.kind == "weights" and ("parted before step 1: record from step 0" in found.advice) == (first == 1)


def test_steps_of_one_run_alone_are_told_in_one_line(record):
    runs = record("short", training()), record("long", training(), steps=5)

    notes = torchparity.compare(*runs).notes

    alone = [note for note in notes if "alone" in note]
    assert alone == ["steps 1 to 4, rank 0 are in the baseline alone and were not compared."]


def test_modules_alone_say_that_calls_between_them_are_missing():
    torch.manual_seed(0)
    model = Net(lambda x: x)
    other = Net(lambda x: x * 1.01)
    other.load_state_dict(model.state_dict())

    done = torchparity.lockstep(other, model, torch.randn(4, 8), level="L0")

    assert "although the modules before it agree: calls between them are not recorded" in done.headline
    assert "data flow" not in done.headline and "level mix" in done.advice


def test_a_step_that_was_cut_off_before_its_first_record_has_no_last_one(tmp_path):
    for name, steps in (("killed", 1), ("whole", 2)):
        writer = RunWriter(tmp_path / name)
        for step in range(steps):
            writer.start_step(step)
            writer.add(Record(name="Torch.sin.0.forward", direction="forward", input_args=[SIZE], output=[SIZE]))
            writer.finish_step()
        if name == "killed":
            writer.start_step(1)  # whose journal stays, as after kill -9
        writer.close()

    found = torchparity.compare(tmp_path / "killed", tmp_path / "whole").verdict

    assert found.sentence == "The candidate was cut off in step 1; the 1 record up to there agrees."
