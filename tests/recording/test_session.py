"""Nothing that was asked for is lost in silence: it is recorded, refused, or said."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn

from torchparity import ParityError, compare, open_run, seed_all
from torchparity.cli import main
from torchparity.recording import PrecisionDebugger, capture


def test_a_step_that_was_not_started_is_warned_about_once(tmp_path, caplog):
    recording = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    recording.start()
    torch.ones(1).exp()
    for _ in range(3):
        recording.step()

    assert caplog.text.count("step() was called again without start()") == 1


def test_values_are_saved_at_level_debug_without_a_start(tmp_path):
    recording = PrecisionDebugger(dump_path=str(tmp_path), level="debug")
    for step in range(2):
        recording.save(torch.full((2,), float(step)), "x")
        recording.step()
    PrecisionDebugger.close()

    run = open_run(tmp_path)
    assert run.steps == [0, 1]
    assert [run.part(step=step).records["x.0.debug"].value.statistics.max for step in run.steps] == [0, 1]


def test_a_value_saved_after_stop_is_warned_about(tmp_path, caplog):
    recording = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    recording.start()
    recording.stop()
    recording.save(torch.ones(1), "x")

    assert "save() records nothing before start() and after stop()" in caplog.text


def test_a_rank_that_is_not_wanted_says_so(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    recording = PrecisionDebugger(dump_path=str(tmp_path), level="L1", rank=[3])
    recording.start()
    recording.stop()
    PrecisionDebugger.close()

    assert "recorded nothing: this is rank 0, and rank=[3]" in caplog.text


def test_steps_that_never_came_are_named(tmp_path, capsys):
    with capture(tmp_path, level="L1", step=[7, 8]) as recording:
        recording.step()
        recording.step()

    assert "steps 7, 8 were asked for, and steps 0 to 1 came" in capsys.readouterr().out


def test_a_part_of_a_name_that_never_came_up_has_its_nearest(tmp_path, capsys):
    with capture(tmp_path, level="L1", list=["reluu"]):
        torch.relu(torch.ones(1))

    assert "never seen: reluu (Did you mean 'relu'?)" in capsys.readouterr().out


@pytest.mark.parametrize("step", [-3, 2.5, "5", True, 10**7])
def test_a_first_step_that_is_no_number_of_one_is_refused(tmp_path, step):
    with pytest.raises(ParityError, match=r"set_init_step was given .* whole number"):
        PrecisionDebugger(dump_path=str(tmp_path), level="L1").set_init_step(step)


@pytest.mark.parametrize("seed", ["x", -1, 1.5, 2**40])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(ParityError, match=r"seed_all was given .* whole number"):
        seed_all(seed)


def test_a_scope_cannot_end_in_a_backward(tmp_path):
    scope = ["Functional.relu.0.forward", "Functional.linear.0.backward"]
    with (
        pytest.raises(ParityError, match=r"scope ends with .* use 'Functional.linear.0.forward'"),
        capture(tmp_path, level="L1", scope=scope),
    ):
        pass


def test_backward_alone_leaves_no_empty_forward_records(tmp_path):
    x = torch.ones(3, requires_grad=True)
    with capture(tmp_path, model=nn.Linear(3, 2), level="mix", data_mode=["backward"]):
        (x * 2).exp().sum().backward()

    records = open_run(tmp_path).part().records
    assert records and not any(".forward" in name for name in records)


def test_one_module_alone_can_be_recorded_in_a_block(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with capture(tmp_path, model=model, level="mix") as recording:
        recording.module_dump(model[1], "chosen")
        model(torch.ones(1, 2))
        recording.module_dump_end()

    assert [name for name in open_run(tmp_path).part().records if "forward" in name] == ["Module.chosen.ReLU.forward.0"]


def test_a_saved_value_can_be_shown_by_the_name_it_is_listed_under(tmp_path, capsys):
    with capture(tmp_path, level="debug", task="tensor") as recording:
        recording.save(torch.full((2,), 7.0), "x")

    assert main(["show", str(tmp_path), "x.0.debug"]) == 0
    assert "value" in capsys.readouterr().out
    assert main(["show", str(tmp_path), "x.0.debug", "--tensor", "value"]) == 0
    assert "7" in capsys.readouterr().out


class Block(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.first, self.wrong, self.last = nn.Linear(4, 4), Scaled(scale), nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.wrong(self.first(x)))


class Scaled(nn.Module):
    """Whose gradient is off by a factor."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return Scaling.apply(x, self.scale)


class Scaling(torch.autograd.Function):
    @staticmethod
    def forward(context, x, scale):
        context.scale = scale
        return x * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 2 * context.scale, None


@pytest.mark.parametrize(
    ("level", "blamed"),
    [("L0", "Module.0.wrong.Scaled.backward.0"), ("mix", "Tensor.mul.2.forward")],  # the call inside of its backward
)
def test_a_wrong_gradient_is_blamed_on_what_made_it(tmp_path, level, blamed):
    def record(name, scale):
        torch.manual_seed(0)
        model = nn.Sequential(Block(scale), nn.Linear(4, 4))
        with capture(tmp_path / name, model=model, level=level):
            model(torch.randn(3, 4, requires_grad=True)).square().sum().backward()
        return tmp_path / name

    found = compare(record("wrong", 1.01), record("right", 1.0)).first_divergence

    assert found.record == blamed
    order = list(open_run(tmp_path / "right").part().records)
    assert order.index("Module.0.wrong.Scaled.backward.0") < order.index("Module.0.Block.backward.0")
