"""Looking for overflows changes no bit of a training, whether it finds any or not."""

from __future__ import annotations

import pytest
import torch

from tests.support.bits import same
from tests.support.zoo import ZOO, Training


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ZOO)
def test_a_training_without_overflow_is_bit_identical_and_nothing_is_found(name, overflowing, caplog):
    alone = Training(ZOO[name])
    for _ in range(2):
        alone.step()
    expected = alone.state()
    watched = Training(ZOO[name])

    found = overflowing(watched.step, steps=2)

    assert found == {}
    state = watched.state()
    for part in expected:
        assert same(state[part], expected[part]), part
    assert not caplog.records, caplog.text


def overflowing_training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(inplace=True), torch.nn.Linear(4, 2)).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        model(torch.randn(3, 4).half() * 6e4).float().square().sum().backward()
        optimizer.step()

    return model, step


def test_a_training_that_overflows_is_bit_identical(overflowing):
    alone, step = overflowing_training()
    for _ in range(3):
        step()
    random = torch.get_rng_state()
    watched, step = overflowing_training()

    assert overflowing(step, steps=3) != {}
    assert torch.equal(torch.get_rng_state(), random)
    assert same(dict(watched.state_dict()), dict(alone.state_dict()))
