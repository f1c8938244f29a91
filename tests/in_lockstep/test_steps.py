"""Several steps in lockstep, and what is asked for wrongly."""

from __future__ import annotations

import copy
import inspect

import pytest
import torch
from torch import nn

import torchparity
from tests.support.twins import twins
from torchparity.comparing import Kind
from torchparity.errors import ConfigError
from torchparity.in_lockstep import LockstepFields


def optimizers(candidate, baseline, **changed):
    return (
        torch.optim.AdamW(candidate.parameters(), lr=1e-2, **changed),
        torch.optim.AdamW(baseline.parameters(), lr=1e-2),
    )


def test_two_models_train_in_lockstep_as_they_would_alone():
    candidate, baseline, tokens = twins()
    alone, _, _ = twins()
    torch.manual_seed(11)
    result = torchparity.lockstep(
        candidate,
        baseline,
        tokens,
        backward=True,
        loss=mean_square,
        steps=3,
        optimizers=optimizers(candidate, baseline),
    )
    torch.manual_seed(11)
    optimizer = torch.optim.AdamW(alone.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        mean_square(alone(tokens)).backward()
        optimizer.step()

    assert result.verdict.kind is Kind.AGREE
    assert [part.step for part in result.comparison.parts] == [0, 1, 2]
    for model in (candidate, baseline):
        assert all(map(torch.equal, model.state_dict().values(), alone.state_dict().values()))


def mean_square(logits):
    return logits.square().mean()


def test_it_ends_at_the_first_step_that_differs():
    candidate, baseline, tokens = twins()
    calls = []

    class Turning(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = candidate

        def forward(self, x):
            calls.append(x)
            self.model.blocks[1].gelu = "none" if len(calls) < 3 else "tanh"
            return self.model(x)

    class Straight(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = baseline

        def forward(self, x):
            return self.model(x)

    result = torchparity.lockstep(Turning(), Straight(), tokens, steps=6)

    assert len(calls) == 3
    assert result.verdict.first.step == 2
    assert result.headline.startswith("step 2, rank 0: First difference: Functional.gelu.1.forward")


def test_a_setting_of_the_optimizer_is_named():
    candidate, baseline, tokens = twins()

    result = torchparity.lockstep(
        candidate, baseline, tokens, backward=True, steps=3, optimizers=optimizers(candidate, baseline, eps=1e-3)
    )

    assert result.verdict.kind is Kind.ARGUMENT
    assert "in optimizer" in result.headline and "0.001" in result.headline


def test_each_step_draws_other_random_numbers_than_the_one_before():
    seen = []

    class Keeps(nn.Module):
        def forward(self, x):
            seen.append(x)
            return x * 1

    torchparity.lockstep(Keeps(), Keeps(), lambda device: torch.rand(3), steps=2)

    first, first_again, second, second_again = seen
    assert torch.equal(first, first_again) and torch.equal(second, second_again)
    assert not torch.equal(first, second)


WRONG = {
    "a level": ({"level": "L2"}, "level='L2'.*mix, L1, L0"),
    "a task": ({"task": "tensors"}, "task='tensors'.*Did you mean 'tensor'"),
    "no steps": ({"steps": 0}, "steps=0"),
    "steps that are no number": ({"steps": True}, "steps=True"),
    "a loss without gradients": ({"loss": mean_square}, "say backward=True"),
    "optimizers without gradients": ({"optimizers": ()}, "say backward=True"),
    "one optimizer": (
        {"backward": True, "optimizers": torch.optim.SGD(nn.Linear(1, 1).parameters())},
        r"optimizers=a SGD; it is a pair, \(the candidate's, the baseline's\)",
    ),
    "no optimizers": ({"backward": True, "optimizers": ()}, "optimizers=a tuple of 0 entries; it is a pair"),
    "half a pair": ({"backward": True, "optimizers": (None, None)}, "NoneType in optimizers; it takes two optimizers"),
    "a tolerance": ({"tolerance": -1.0}, "tolerance -1.0"),
    "an alignment": ({"align": "nearest"}, "align='nearest'"),
    "a loss of many numbers": ({"backward": True, "loss": lambda y: y}, r"shape \[4, 8, 31\].*one number"),
    "a misspelt option": ({"tolerence": 1.0}, "no option 'tolerence'. Did you mean 'tolerance'"),
    "a pattern": ({"ignore": ["Functional.conv.*"]}, "names no record"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_asked_for_wrongly_is_answered_in_one_sentence(wrong):
    options, answer = WRONG[wrong]

    with pytest.raises(ConfigError, match=answer):
        torchparity.lockstep(*twins(), **options)


def test_models_must_be_modules():
    with pytest.raises(ConfigError, match="a function as model_b; it takes two modules"):
        torchparity.lockstep(nn.ReLU(), mean_square, torch.ones(2))


def test_models_that_share_parameters_cannot_be_trained():
    candidate, _, tokens = twins()

    with pytest.raises(ConfigError, match="share parameters"):
        torchparity.lockstep(candidate, candidate, tokens, backward=True, optimizers=optimizers(candidate, candidate))


def test_optimizers_of_another_copy_of_the_model_are_refused():
    candidate, baseline, tokens = twins()
    pair = optimizers(twins()[0], baseline)

    with pytest.raises(ConfigError, match="no parameter of model_a in its optimizer, so that it would not train; make"):
        torchparity.lockstep(candidate, baseline, tokens, backward=True, optimizers=pair)


def test_optimizers_in_the_wrong_order_are_refused():
    candidate, baseline, tokens = twins()

    with pytest.raises(ConfigError, match=r"model_b's parameters in the optimizer of model_a; give them in the order"):
        torchparity.lockstep(candidate, baseline, tokens, backward=True, optimizers=optimizers(baseline, candidate))


def test_an_optimizer_may_have_some_of_the_parameters_and_others_besides():
    candidate, baseline, tokens = twins()
    loss = nn.Linear(31, 1)
    pair = tuple(
        torch.optim.SGD([*[*model.parameters()][:2], *copy.deepcopy(loss).parameters()], lr=0.1)
        for model in (candidate, baseline)
    )
    before = next(candidate.parameters()).detach().clone()

    result = torchparity.lockstep(candidate, baseline, tokens, backward=True, optimizers=pair)

    assert result.agrees and not torch.equal(next(candidate.parameters()), before)


def test_gradients_need_something_that_has_one():
    with pytest.raises(ConfigError, match="finds no output that has a gradient"):
        torchparity.lockstep(nn.ReLU(), nn.ReLU(), torch.ones(2), backward=True)


def test_gradients_are_compared_whatever_the_caller_switched_off():
    candidate, baseline, tokens = twins()

    with torch.no_grad():
        result = torchparity.lockstep(candidate, baseline, tokens, backward=True)

    assert "Functional.gelu.0.backward" in result.comparison.parts[0].candidate.records


def test_the_typed_fields_are_the_keywords():
    keywords = {
        name: parameter.annotation
        for name, parameter in inspect.signature(torchparity.lockstep).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }

    assert LockstepFields.__annotations__.keys() == keywords.keys()
    assert {name: kind.__forward_arg__ for name, kind in LockstepFields.__annotations__.items()} == keywords
