"""Recording changes no bit of a training."""

from __future__ import annotations

import pytest

from tests.support.bits import same
from tests.support.processes import run_python
from tests.support.zoo import ZOO, Training
from torchparity import open_run
from torchparity.recording import capture

TASKS = {
    "statistics": {"task": "statistics"},
    "md5": {"task": "statistics", "settings": {"statistics": {"summary_mode": "md5"}}},
    "tensor": {"task": "tensor"},
}


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


THREADS = """
import sys, torch

if sys.argv[2] != "default":
    torch.set_num_threads(int(sys.argv[2]))

def train():
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(8 * 900, 10)
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 3, 32, 32)).square().mean()
        loss.backward()
        optimizer.step()
    return [loss.item(), *(parameter.double().sum().item() for parameter in model.parameters())]

before, plain = torch.get_num_threads(), train()
from torchparity.recording import capture  # whatever it loads must not change the number either
with capture(sys.argv[1], task="statistics"):
    inside, recorded = torch.get_num_threads(), train()
print(before == inside == torch.get_num_threads(), plain == recorded == train())
"""


@pytest.mark.parametrize("threads", ["default", "1", "2", "3"])
def test_torch_keeps_its_number_of_threads_and_so_its_sums(tmp_path, threads):
    done = run_python(THREADS, tmp_path, threads)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True True"


def test_a_thread_limit_of_the_environment_is_kept(tmp_path):
    done = run_python(THREADS, tmp_path, "default", environment={"OMP_NUM_THREADS": "1"})

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True True"
