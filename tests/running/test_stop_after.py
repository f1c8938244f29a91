"""`torchparity run --stop-after`: the steps that count are those of the training, whatever is evaluated before."""

from __future__ import annotations

import json
import shlex

import pytest

from torchparity import cli, open_run

EVALUATED_BEFORE = """
import sys
import torch
from torch import nn
torch.manual_seed(0)
data = torch.randn(8, 4)
loader = torch.utils.data.DataLoader(data, 2) if "loader" in sys.argv else data.split(2)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
with torch.set_grad_enabled("gradients" in sys.argv):
    print("before", [model(each).sum().item() for each in loader])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, each in enumerate(loader):
    optimizer.zero_grad()
    out = model(each)
    (out * 1.5 if "wrong" in sys.argv and step > 1 else out).square().mean().backward()
    optimizer.step()
print("over")
"""
GENERATING = """
import torch
model = torch.nn.Linear(4, 4)
with torch.no_grad():
    for _ in range(5):
        model(torch.ones(4))
print("over")
"""


@pytest.mark.parametrize("words", [[], ["loader"], ["gradients"], ["loader", "gradients"]])
def test_an_evaluation_before_the_optimizer_does_not_end_the_script(scripts, words):
    name = scripts.write(EVALUATED_BEFORE)

    ours = scripts.recorded("--steps", "1-2", "--stop-after", "-o", "run", name, *words)

    assert (ours.code, "over" in ours.out) == (0, False), ours.err
    assert ours.err.splitlines()[-1] == "torchparity: the script was ended after step 2, as --stop-after asks."
    parts = open_run(scripts.folder / "run").parts
    assert [part.step for part in parts] == [1, 2]
    assert all("Module.0.Linear.backward.0" in part.records for part in parts)


def test_a_model_that_is_named_is_recorded_in_the_training_and_not_in_the_evaluation(scripts):
    name = scripts.write(EVALUATED_BEFORE)

    assert scripts.recorded("--steps", "1-2", "--model", "model", "-o", "run", name).code == 0

    parts = open_run(scripts.folder / "run").parts
    assert [part.step for part in parts] == [1, 2]
    assert all("Module.0.Linear.backward.0" in part.records for part in parts)


def test_the_commands_of_checksums_find_the_fault_behind_an_evaluation(scripts, capfd):
    name = scripts.write(EVALUATED_BEFORE)
    for run, words in (("right", []), ("wrong", ["wrong"])):
        assert scripts.recorded("--checksum-every", 2, "-o", run, name, "loader", *words).code == 0
    runs = [str(scripts.folder / run) for run in ("wrong", "right")]
    capfd.readouterr()
    cli.main(["compare", *runs, "--json"])
    answer = json.loads(capfd.readouterr().out)

    for command in answer["next"][:-1]:
        assert scripts.recorded(*shlex.split(command)[2:]).code == 0
    folders = [str(scripts.folder / word) for word in shlex.split(answer["next"][-1])[2:]]

    assert answer["steps"] == [1, 2]
    assert cli.main(["compare", *folders, "--fail-on", "divergence"]) == 1


def test_a_script_that_never_trains_runs_to_its_end_and_is_told(scripts):
    ours = scripts.recorded("--steps", "1-2", "--stop-after", "-o", "run", scripts.write(GENERATING))

    assert (ours.code, ours.out) == (0, "over\n")
    assert [part.step for part in open_run(scripts.folder / "run").parts] == [1, 2]
    assert ours.err.splitlines()[-1] == (
        "torchparity: --stop-after did not end the script: it called no backward and no optimizer.step, "
        "and calls of a model alone may be an evaluation before the training."
    )
