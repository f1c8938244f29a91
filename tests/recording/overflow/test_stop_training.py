"""Task overflow_check with stop_training: the training ends at the last overflow, as ptdbg_ascend's does."""

from __future__ import annotations

import pytest
import torch

from tests.support.bits import same
from tests.support.processes import run_python
from torchparity import capture, open_run
from torchparity.overflow.entry import Verdict, overflows_of

LARGE = torch.full((2, 2), 300.0, dtype=torch.float16)


def stopping(path, overflow_nums, **fields):
    return capture(path, level="L1", task="overflow_check", overflow_nums=overflow_nums, stop_training=True, **fields)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("asked", [1, 3])
def test_the_training_stops_at_the_last_overflow_with_the_words_of_ptdbg(tmp_path, asked):
    done = []
    with pytest.raises(ValueError, match="overflow") as raised, stopping("run", asked) as recording:
        for number in range(5):
            torch.exp(torch.ones(2))
            torch.matmul(LARGE, LARGE)
            done.append(number)
            recording.step()

    assert type(raised.value) is ValueError
    assert str(raised.value) == f"[overflow {asked} times]: dump file is saved in '{tmp_path / 'run'}'."
    assert done == list(range(asked - 1))
    assert open_run("run").steps == list(range(asked))


def test_what_overflowed_is_saved_and_can_be_judged():
    with pytest.raises(ValueError, match="overflow 1 times"), stopping("run", 1):
        torch.matmul(LARGE, LARGE)

    (found,) = overflows_of(open_run("run").parts, torch.device("cpu"))
    assert (found.name, found.verdict) == ("Torch.matmul.0", Verdict.NORMAL)


def test_a_gradient_stops_it_too(tmp_path):
    leaf = torch.zeros(2, requires_grad=True)
    with pytest.raises(ValueError, match="overflow 1 times"), stopping("run", 1):
        loss = leaf.sqrt().sum()
        loss.backward()

    assert list(open_run("run").part().records) == ["Tensor.sqrt.0.forward", "Tensor.sqrt.0.backward"]
    assert len(list(tmp_path.glob("backward_info_*.json"))) == 1


def test_who_catches_it_trains_on_and_nothing_more_is_looked_for():
    errors = 0
    with stopping("run", 1) as recording:
        for _ in range(3):
            try:
                torch.matmul(LARGE, LARGE)
            except ValueError:
                errors += 1
            recording.step()

    assert errors == 1
    assert open_run("run").steps == [0]


def test_without_a_limit_nothing_stops():
    with stopping("run", -1):
        for _ in range(3):
            torch.matmul(LARGE, LARGE)

    assert len(open_run("run").part().records) == 3


def training():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).square().sum().backward()
        optimizer.step()
    yield model
    torch.log(torch.zeros(2))


def test_what_was_trained_until_then_has_the_bits_of_a_training_alone():
    alone, random = next(training()), torch.get_rng_state()
    watched = training()

    with pytest.raises(ValueError, match="overflow 1 times"), stopping("run", 1):
        model = next(watched)
        next(watched)

    assert same(dict(model.state_dict()), dict(alone.state_dict()))
    assert torch.equal(torch.get_rng_state(), random)


SCRIPT = """
import os
import sys

os.chdir(sys.argv[1])
import torch
from torchparity import PrecisionDebugger

debugger = PrecisionDebugger(task="overflow_check", dump_path="run", overflow_nums=2, stop_training=True)
large = torch.full((2, 2), 300.0, dtype=torch.float16)
for step in range(5):
    debugger.start()
    torch.matmul(large, large)
    debugger.stop()
    debugger.step()
    print("trained", step, flush=True)
"""


def test_a_script_ends_with_the_error_and_leaves_the_run(tmp_path):
    ended = run_python(SCRIPT, tmp_path)

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        f"ValueError: [overflow 2 times]: dump file is saved in '{tmp_path / 'run'}'."
    )
    assert "trained 0" in ended.stdout and "trained 1" not in ended.stdout
    assert open_run(tmp_path / "run").steps == [0, 1]
