"""The losses and gradient norms that a step's records tell, against what the program itself saw."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.support.dumps import call, constant, write_dump
from tests.support.golden import GOLDEN, needs_golden
from torchparity import open_run
from torchparity.comparing.judging.evidence.step_facts import StepFacts, step_facts
from torchparity.recording import capture


def facts_of(path, step=0):
    return step_facts(open_run(path).part(step=step))


def batch(seed=0):
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))


def mean_of_squares(model):
    return model(batch()).pow(2).mean()


def sum_of_two(model):
    output = model(batch())
    return output.pow(2).mean() + 0.5 * output.abs().mean()


def stacked(model):
    output = model(batch())
    return torch.stack([output.pow(2).mean(), output.abs().mean()]).sum()


def added_in_place(model):
    loss = model(batch()).pow(2).mean()
    loss += 0.25
    return loss


def of_one_element(model):
    return model(batch()).sum().reshape(1)


def cast(model):
    return functional.mse_loss(model(batch()).bfloat16(), torch.zeros(3, 2, dtype=torch.bfloat16)).float()


def viewed(model):
    return model(batch()).pow(2).mean().view(())


def not_a_number(model):
    return model(batch()).pow(2).mean() * math.nan


@pytest.mark.parametrize("level", ["L1", "mix"])
@pytest.mark.parametrize(
    "loss_of",
    [mean_of_squares, sum_of_two, stacked, added_in_place, of_one_element, cast, viewed, not_a_number],
    ids=lambda function: function.__name__,
)
def test_the_loss_is_what_backward_was_called_on(tmp_path, model, level, loss_of):
    with capture(tmp_path, model=model if level == "mix" else None, level=level):
        loss = loss_of(model)
        loss.backward()

    facts = facts_of(tmp_path)

    assert facts.losses == pytest.approx((loss.item(),), rel=0, abs=0, nan_ok=True)
    assert facts.loss_record in open_run(tmp_path).part().records


def test_each_micro_batch_has_a_loss(tmp_path, model):
    losses = []
    with capture(tmp_path, model=model) as recording:
        for _ in range(2):
            for seed in range(3):
                loss = model(batch(seed + 10 * len(losses))).pow(2).mean() / 3
                loss.backward()
                losses.append(loss.item())
            recording.step()

    assert facts_of(tmp_path, 0).losses == tuple(losses[:3])
    assert facts_of(tmp_path, 1).losses == tuple(losses[3:])


def test_two_losses_of_one_graph_are_two(tmp_path, model):
    with capture(tmp_path, model=model):
        output = model(batch())
        first, second = output.pow(2).mean(), output.abs().mean()
        first.backward(retain_graph=True)
        second.backward()

    assert facts_of(tmp_path).losses == (first.item(), second.item())


def test_a_scaled_loss_is_the_scaled_one(tmp_path, model):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with capture(tmp_path, model=model):
        loss = mean_of_squares(model)
        scaler.scale(loss).backward()

    assert facts_of(tmp_path).losses == (loss.item() * 1024.0,)


class WithLoss(nn.Module):
    """A model that returns its loss beside its output, as Hugging Face's do."""

    def __init__(self, body):
        super().__init__()
        self.body, self.criterion = body, nn.MSELoss()

    def forward(self, x):
        output = self.body(x)
        return {"loss": self.criterion(output, torch.zeros_like(output)), "logits": output}


@pytest.mark.parametrize(
    ("level", "record"),
    [
        ("L0", "Module.criterion.MSELoss.forward.0"),
        ("L1", "Functional.mse_loss.0.forward"),
        ("mix", "Functional.mse_loss.0.forward"),
    ],
)
def test_the_loss_of_a_model_that_returns_it_is_told_once(tmp_path, model, level, record):
    whole = WithLoss(model)
    with capture(tmp_path, model=whole, level=level):
        loss = whole(batch())["loss"]
        loss.backward()

    facts = facts_of(tmp_path)

    assert facts.losses == (loss.item(),)
    assert facts.loss_records == (record,)


def test_a_loss_that_was_not_recorded_is_none(tmp_path, model):
    with capture(tmp_path, model=model, level="L0"):
        mean_of_squares(model).backward()

    assert facts_of(tmp_path) == StepFacts()
    assert facts_of(tmp_path).loss is None and facts_of(tmp_path).gradient_norm is None


def test_a_gradient_that_the_user_hands_in_is_no_loss(tmp_path, model):
    with capture(tmp_path, model=model):
        model(batch()).backward(torch.ones(3, 2))

    assert facts_of(tmp_path).losses == ()


def test_without_backward_there_is_no_loss(tmp_path, model):
    with capture(tmp_path, model=model):
        mean_of_squares(model)

    assert facts_of(tmp_path) == StepFacts()


def clip_with_norm(parameters):
    norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters])
    nn.utils.clip_grads_with_norm_(parameters, 0.1, norm)
    return norm


@pytest.mark.parametrize(
    "clip",
    [
        pytest.param(lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.1), id="foreach"),
        pytest.param(lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.1, foreach=False), id="loop"),
        pytest.param(lambda parameters: nn.utils.clip_grad_norm_(parameters, 99.0), id="nothing-to-clip"),
        pytest.param(lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.1, norm_type=math.inf), id="largest"),
        pytest.param(lambda parameters: nn.utils.clip_grad_norm_(parameters[:1], 0.1), id="one-parameter"),
        pytest.param(clip_with_norm, id="in-two-parts"),
    ],
)
@pytest.mark.parametrize("has_stacks", [True, False])
def test_the_norm_is_what_clipping_returned(tmp_path, model, clip, has_stacks):
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, eps=1e-6)
    with capture(tmp_path, model=model, extra_info=has_stacks):
        mean_of_squares(model).backward()
        norm = clip(parameters)
        optimizer.step()

    assert facts_of(tmp_path).gradient_norms == (norm.item(),)


def test_a_small_number_added_to_a_norm_is_not_clipping(tmp_path, model):
    with capture(tmp_path, model=model):
        loss = mean_of_squares(model)
        loss / (torch.linalg.vector_norm(batch()) + 1e-6)

    assert facts_of(tmp_path).gradient_norms == ()


def test_the_call_stack_names_clipping_where_too_little_of_it_is_recorded(tmp_path, model):
    parameters = list(model.parameters())
    with capture(tmp_path, level="L1", list=["vector_norm"]):
        mean_of_squares(model).backward()
        norm = nn.utils.clip_grad_norm_(parameters, 0.1, foreach=False)
        torch.linalg.vector_norm(parameters[0])

    assert facts_of(tmp_path).gradient_norms == (norm.item(),)


@needs_golden
@pytest.mark.parametrize(("model", "level"), [("att", "mix"), ("conv", "L1")])
@pytest.mark.parametrize("task", ["statistics", "tensor", "md5"])
def test_runs_of_msprobe_tell_their_loss(model, level, task):
    facts = facts_of(GOLDEN / "runs" / f"{model}-{task}-{level}-base")
    broken = facts_of(GOLDEN / "runs" / f"{model}-{task}-{level}-nan")

    assert facts.loss_record is not None and facts.loss_record.split(".")[1] in ("mse_loss", "cross_entropy")
    assert facts.loss is not None and 1 < facts.loss < 5
    assert broken.loss is not None and math.isnan(broken.loss)


def test_strange_records_tell_nothing(tmp_path):
    lone = {"input": [constant(1.0, shape=[])], "output": []}
    strange = {
        "Functional.relu.0.backward": lone,
        "no name at all": call([], []),
        "Tensor.add.0.forward": call([constant("nan", shape=[])], []),
        "Functional.gelu.0.forward": call([], []),
        "Functional.gelu.0.backward": lone,
    }

    assert facts_of(write_dump(tmp_path, strange)) == StepFacts()
