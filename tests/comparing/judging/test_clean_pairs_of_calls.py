"""One program in two ways that make other calls and compute the same: nobody is to blame."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

TASKS = pytest.mark.parametrize("task", ["statistics", "tensor"])
SIDES = pytest.mark.parametrize("is_candidates", [True, False], ids=["candidate", "baseline"])


class Network(nn.Module):
    def __init__(self, activation=torch.relu, around=lambda layer, x: layer(x)):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(20, 16), nn.LayerNorm(16)
        self.hidden, self.head = nn.Linear(16, 16), nn.Linear(16, 20)
        self.activation, self.around = activation, around

    def forward(self, tokens):
        x = self.around(lambda x: self.hidden(self.norm(x)), self.embedding(tokens))
        return self.head(self.activation(x))


def plain(model, optimizer, tokens, others):
    optimizer.zero_grad()
    loss_of(model, tokens).backward()
    optimizer.step()


def loss_of(model, tokens):
    return functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())


def training(train=plain, *, parameters=lambda model: model.parameters(), **changes):
    def make():
        model = Network(**changes)
        optimizer = torch.optim.AdamW(parameters(model), lr=1e-3)
        tokens, others = torch.randint(0, 20, (2, 4, 6))
        return model, lambda: train(model, optimizer, tokens, others)

    return make


def in_order(program, other, *, is_candidates):
    return (program, other) if is_candidates else (other, program)


def with_scaler(model, optimizer, tokens, others):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer.zero_grad()
    scaler.scale(loss_of(model, tokens)).backward()
    scaler.step(optimizer)
    scaler.update()


def scaled_by_three(model, optimizer, tokens, others):
    optimizer.zero_grad()
    (loss_of(model, tokens) * 3).backward()
    for parameter in model.parameters():
        parameter.grad.div_(3)
    optimizer.step()


def in_two_halves(model, optimizer, tokens, others):
    optimizer.zero_grad()
    loss = loss_of(model, tokens)
    (loss * 0.5).backward(retain_graph=True)
    (loss * 0.5).backward()
    optimizer.step()


@TASKS
@SIDES
@pytest.mark.parametrize("train", [with_scaler, scaled_by_three, in_two_halves])
def test_a_scaled_loss_whose_gradients_are_scaled_back_agrees(verdict, task, is_candidates, train):
    found = verdict(*in_order(training(train), training(), is_candidates=is_candidates), steps=2, task=task)

    assert found.kind == "agree" and found.agreement.largest < 0.05, found.sentence
    assert found.agreement.item or "only records differ" in found.sentence, found.sentence


@TASKS
@SIDES
def test_a_scaled_loss_whose_gradients_are_scaled_back_by_less_is_named(verdict, task, is_candidates):
    def train(model, optimizer, tokens, others):
        optimizer.zero_grad()
        (loss_of(model, tokens) * 4).backward()
        for parameter in model.parameters():
            parameter.grad.div_(3.9)
        optimizer.step()

    found = verdict(*in_order(training(train), training(), is_candidates=is_candidates), task=task)

    assert found.kind == "another call" and found.first.partner == "Tensor.mul.0.forward", found.sentence


def squared(x):
    return torch.relu(x).pow(2)


def product(x):
    return torch.relu(x) * torch.relu(x)


@TASKS
@SIDES
def test_a_call_that_one_run_makes_twice_has_a_part_of_the_gradient_each_time(verdict, task, is_candidates):
    def program(activation):
        def make():
            model, tokens = Network(activation), torch.randint(0, 20, (4, 6))
            return model, lambda: loss_of(model, tokens).backward()

        return make

    found = verdict(*in_order(program(product), program(squared), is_candidates=is_candidates), task=task)

    assert found.kind == "agree" and found.agreement.largest < 0.05, found.sentence


def evaluating(choose):
    """Return a step that evaluates the model before it is trained, on a batch that `choose` takes."""

    def train(model, optimizer, tokens, others):
        with torch.no_grad():
            model(choose(tokens, others))
        plain(model, optimizer, tokens, others)

    return train


EVALUATIONS = [
    pytest.param(evaluating(lambda tokens, others: others), id="other data"),
    pytest.param(evaluating(lambda tokens, others: tokens), id="same data"),
]


@TASKS
@SIDES
@pytest.mark.parametrize("train", EVALUATIONS)
def test_an_evaluation_that_one_run_alone_makes_agrees(verdict, task, is_candidates, train):
    found = verdict(*in_order(training(train), training(), is_candidates=is_candidates), steps=2, task=task)

    assert found.kind == "agree" and found.agreement.largest < 0.05, found.sentence


@TASKS
@SIDES
def test_a_fault_after_an_evaluation_that_one_run_alone_makes_is_named(verdict, task, is_candidates):
    faulty = training(EVALUATIONS[0].values[0], activation=lambda x: torch.relu(x) * 1.01)

    found = verdict(*in_order(faulty, training(), is_candidates=is_candidates), steps=2, task=task)

    assert found.kind == "another call" and "Tensor.mul." in found.first.partner, found.sentence


def logging_a_gradient(model, optimizer, tokens, others):
    optimizer.zero_grad()
    loss = loss_of(model, tokens)
    torch.autograd.grad(loss, [model.embedding.weight], retain_graph=True)
    loss.backward()
    optimizer.step()


@TASKS
@SIDES
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(training(logging_a_gradient), id="a gradient that is logged"),
        pytest.param(
            training(around=lambda layer, x: checkpoint(layer, x, use_reentrant=True)), id="reentrant checkpointing"
        ),
    ],
)
def test_no_gradient_is_missing_where_all_parameters_get_theirs(verdict, task, is_candidates, program):
    found = verdict(*in_order(program, training(), is_candidates=is_candidates), steps=2, task=task)

    assert found.kind == "agree" and found.agreement.largest < 0.05, found.sentence


@TASKS
def test_an_input_whose_numbers_are_not_recorded_is_not_called_equal(verdict, task):
    def program(scale):
        def make():
            model, tokens = nn.Embedding(8, 4, sparse=True), torch.randint(0, 8, (6,))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

            def step():
                optimizer.zero_grad()
                model(tokens).square().mean().backward()
                scale(model.weight.grad._values())
                optimizer.step()

            return model, step

        return make

    found = verdict(program(lambda values: values.mul_(2)), program(lambda values: None), steps=2, task=task)

    assert found.kind == "cannot tell" and "input.1, whose numbers were not recorded" in found.sentence, found.sentence


def in_two_groups(model):
    parameters = list(model.parameters())
    return [{"params": [p for p in parameters if (p.ndim > 1) == is_matrix]} for is_matrix in (True, False)]


def backwards(model):
    return list(model.parameters())[::-1]


@TASKS
@SIDES
@pytest.mark.parametrize("parameters", [in_two_groups, backwards])
def test_an_optimizer_that_takes_the_parameters_in_another_order_agrees(verdict, task, is_candidates, parameters):
    reordered = training(parameters=parameters)

    found = verdict(*in_order(reordered, training(), is_candidates=is_candidates), steps=2, task=task)

    assert found.kind == "agree" and found.agreement.largest < 0.05, found.sentence


@TASKS
@SIDES
def test_another_optimizer_in_another_order_does_not_agree(verdict, task, is_candidates):
    def faulty(model):
        return [{**group, "weight_decay": 0.5} for group in in_two_groups(model)]

    found = verdict(*in_order(training(parameters=faulty), training(), is_candidates=is_candidates), steps=2, task=task)

    assert found.kind != "agree", found.sentence
