"""What lockstep leaves behind: nothing in the models, the inputs, the generators and torch's hooks."""

from __future__ import annotations

import copy
import random
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import _get_current_function_mode_stack

import torchparity
from tests.support.bits import same_bits
from tests.support.twins import twins
from tests.support.zoo import ZOO, Training

HOOKS = [name for name in vars(nn.Linear(1, 1)) if name.endswith("_hooks")]


def hooks_of(model: nn.Module) -> list[tuple[str, str]]:
    found = [(path, name) for path, module in model.named_modules() for name in HOOKS if getattr(module, name, None)]
    return found + [(name, "hook of a parameter") for name, each in model.named_parameters() if each._backward_hooks]


@pytest.mark.parametrize("animal", sorted(set(ZOO) - {"autocast"}))
def test_no_bit_of_a_model_changes_and_twins_agree(animal):
    training = Training(ZOO[animal])
    training.step()  # gradients, and running statistics that are not those of a new model
    model, twin = training.model, copy.deepcopy(training.model)
    before = copy.deepcopy(training.state())
    inputs, _ = ZOO[animal].batch()
    before["random"] = torch.get_rng_state()

    result = torchparity.lockstep(model, twin, inputs, backward=True, task="tensor")

    assert result.verdict.agreement.is_identical
    after = training.state()
    assert same_bits(after["random"], before["random"])
    for kind in ("parameters", "gradients"):
        assert after[kind].keys() == before[kind].keys()
        for name, tensor in after[kind].items():
            assert (tensor is None and before[kind][name] is None) or same_bits(tensor, before[kind][name])
    assert hooks_of(model) == hooks_of(twin)
    assert _get_current_function_mode_stack() == []


def test_gradients_are_the_very_tensors_they_were():
    candidate, baseline, tokens = twins()
    candidate(tokens).sum().backward()
    before = [parameter.grad for parameter in candidate.parameters()]
    values = [gradient.clone() for gradient in before]

    torchparity.lockstep(candidate, baseline, tokens, backward=True)

    assert all(parameter.grad is gradient for parameter, gradient in zip(candidate.parameters(), before, strict=True))
    assert all(map(same_bits, before, values))
    assert all(parameter.grad is None for parameter in baseline.parameters())


def test_generators_of_python_and_numpy_are_as_they_were():
    candidate, baseline, tokens = twins()
    random.seed(3), np.random.seed(3)
    expected = random.random(), np.random.rand()
    random.seed(3), np.random.seed(3)

    class Draws(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x) * random.random() + float(np.random.rand())

    result = torchparity.lockstep(Draws(candidate), Draws(baseline), tokens)

    assert result.verdict.agreement.is_identical
    assert (random.random(), np.random.rand()) == expected


def test_the_inputs_are_neither_written_nor_given_gradients():
    inputs = torch.randn(4, 3, requires_grad=True)
    before = inputs.detach().clone()
    model = nn.Sequential(nn.Identity(), nn.ReLU(inplace=True))

    class WritesInput(nn.Module):
        def forward(self, x):
            with torch.no_grad():
                x.mul_(2)
            return model(x * 1)

    result = torchparity.lockstep(WritesInput(), WritesInput(), inputs, backward=True, task="tensor")

    assert result.verdict.agreement.is_identical
    assert same_bits(inputs.detach(), before)
    assert inputs.grad is None


def test_one_model_can_be_compared_with_itself():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))

    result = torchparity.lockstep(model, model, torch.randn(8, 4), backward=True, task="tensor")

    assert result.verdict.agreement.is_identical
    assert model[1].num_batches_tracked == 0
    assert torch.equal(model[1].running_mean, torch.zeros(4))


def test_a_buffer_that_a_model_replaces_is_put_back():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count = self.count + 1
            return x * self.count

    model = Counts()
    buffer = model.count

    result = torchparity.lockstep(model, model, torch.ones(3), task="tensor")

    assert result.verdict.agreement.is_identical
    assert model.count is buffer and buffer == 0


class FailingError(Exception):
    """A model's own failure."""


class Failing(nn.Module):
    def __init__(self, in_backward: bool):
        super().__init__()
        self.inner, self.batch_norm, self.in_backward = nn.Linear(4, 4), nn.BatchNorm1d(4), in_backward

    def forward(self, x):
        y = self.batch_norm(self.inner(x)) + torch.rand(())
        if not self.in_backward:
            raise FailingError("forward")
        y.register_hook(self.fail)
        return y

    def fail(self, gradient):
        raise FailingError("backward")


@pytest.mark.parametrize("in_backward", [False, True])
@pytest.mark.parametrize("is_candidate", [False, True])
def test_a_model_s_failure_passes_through_and_nothing_stays(in_backward, is_candidate):
    failing, fine = Failing(in_backward), nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    state, random_state = copy.deepcopy(failing.state_dict()), torch.get_rng_state()
    models = (failing, fine) if is_candidate else (fine, failing)

    with pytest.raises(FailingError, match="backward" if in_backward else "forward"):
        torchparity.lockstep(*models, torch.randn(5, 4), backward=True)

    assert hooks_of(failing) == hooks_of(fine) == []
    assert _get_current_function_mode_stack() == []
    assert all(parameter.grad is None for model in models for parameter in model.parameters())
    assert all(same_bits(value, state[name]) for name, value in failing.state_dict().items())
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().set_state(random_after(random_state))))


def random_after(state: torch.Tensor) -> torch.Tensor:
    """Return the state after the inputs of the test were drawn."""
    generator = torch.Generator().set_state(state)
    torch.randn(5, 4, generator=generator)
    return generator.get_state()


def test_nothing_warns_and_nothing_is_printed(capsys):
    candidate, baseline, tokens = twins()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torchparity.lockstep(candidate, baseline, tokens, backward=True)

    assert capsys.readouterr() == ("", "")


def test_a_recording_around_it_goes_on(tmp_path):
    candidate, baseline, tokens = twins()

    with torchparity.capture(tmp_path / "run", model=baseline):
        baseline(tokens)
        result = torchparity.lockstep(candidate, baseline, tokens)
        baseline(tokens)

    assert result.verdict.agreement.is_identical
    records = torchparity.open_run(tmp_path / "run").part().records
    assert {"Module.Net.forward.0", "Module.Net.forward.1"} <= records.keys()


@pytest.mark.parametrize("backward", [False, True])
def test_in_inference_mode_it_works_and_leaves_nothing(backward):
    with torch.inference_mode():
        inputs = torch.randn(8, 4)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    twin = copy.deepcopy(model)

    with torch.inference_mode():
        result = torchparity.lockstep(model, twin, inputs, backward=backward)

    assert result.verdict.agreement.is_identical
    assert model[1].num_batches_tracked == 0 and torch.equal(model[1].running_var, torch.ones(4))
    assert ("Functional.batch_norm.0.backward" in result.comparison.parts[0].candidate.records) is backward
