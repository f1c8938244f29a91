"""Recording changes no bit of a training."""

from __future__ import annotations

import pytest
import torch

from tests.support.bits import same_bits
from tests.support.zoo import ZOO, Training
from torchparity import open_run
from torchparity.recording import capture

TASKS = {
    "statistics": {"task": "statistics"},
    "md5": {"task": "statistics", "settings": {"statistics": {"summary_mode": "md5"}}},
    "tensor": {"task": "tensor"},
}


def same(left, right) -> bool:
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and same_bits(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


@pytest.fixture(scope="module")
def bare():
    """The state of each animal after three steps that nobody watched."""
    states = {}
    for name, animal in ZOO.items():
        training = Training(animal)
        for _ in range(3):
            training.step()
        states[name] = training.state()
    return states


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("name", ZOO)
def test_training_is_bit_identical(name, level, task, bare, tmp_path, caplog):
    training = Training(ZOO[name])
    with capture(tmp_path, model=training.model, level=level, **TASKS[task]) as recording:
        for step in range(3):
            training.step()
            if step < 2:
                recording.step()

    state = training.state()

    for part in bare[name]:
        assert same(state[part], bare[name][part]), part
    assert not caplog.records, caplog.text
    run = open_run(tmp_path)
    assert run.steps == [0, 1, 2]
    for part in run.parts:
        assert part.records
        assert part.verify() == []
