"""The end of `torchparity run`: what comes after the last step, and what is said of it all."""

from __future__ import annotations

import pytest

from torchparity import cli, open_run
from torchparity.storage.step_checksums import read_checksums

EVALUATED_WITH_GRADIENTS = """
import sys
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
model.eval()
print(model(torch.ones(2, 4)).sum().item())
LAST
"""


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("last", ["", "sys.exit(0)"])
def test_calls_after_the_last_optimizer_step_are_no_step(scripts, task, last):
    name = scripts.write(EVALUATED_WITH_GRADIENTS.replace("LAST", last))

    ours = scripts.recorded("--task", task, "-o", "run", name)

    assert ours.code == 0
    assert "in 2 steps" in ours.err and "incomplete" not in ours.err
    assert list(open_run(scripts.folder / "run").steps) == [0, 1]
    assert sorted(entry.name for entry in (scripts.folder / "run").iterdir()) == ["step0", "step1"]


@pytest.mark.parametrize(
    ("last", "said"),
    [("model(torch.ones(2, 4)).sum().backward()", ""), ("raise ValueError", "step 2 was cut off by ValueError")],
)
def test_a_step_that_is_passed_back_or_cut_off_is_kept(scripts, last, said):
    name = scripts.write(EVALUATED_WITH_GRADIENTS.replace("LAST", last))

    ours = scripts.recorded("-o", "run", name)

    assert said in ours.err
    assert list(open_run(scripts.folder / "run").steps) == [0, 1, 2]


def test_calls_after_the_last_optimizer_step_have_no_checksum(scripts):
    name = scripts.write(EVALUATED_WITH_GRADIENTS.replace("LAST", ""))

    assert scripts.recorded("--checksum-every", 1, "-o", "run", name).code == 0

    assert [each.step for each in read_checksums(scripts.folder / "run", 0).steps] == [0, 1]


def test_a_checksum_of_a_step_without_backward_is_shown_without_a_loss(scripts, capfd):
    name = scripts.write("import torch\nmodel = torch.nn.Linear(2, 2)\nfor _ in range(2): model(torch.ones(2))")
    assert scripts.recorded("--checksum-every", 1, "-o", "run", name).code == 0

    assert cli.main(["show", str(scripts.folder / "run")]) == 0

    lines = capfd.readouterr().out.splitlines()[1:]
    assert len(lines) == 2 and all(line.endswith(", no loss") for line in lines)


WITHOUT_MODULES = """
import torch
weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(2):
    (weight * 2).sum().backward()
    optimizer.step()
"""


def test_a_script_without_modules_has_one_line_and_succeeds(scripts):
    ours = scripts.recorded("-o", "run", scripts.write(WITHOUT_MODULES))

    (line,) = ours.err.splitlines()
    assert ours.code == 0
    assert line.startswith(
        "torchparity: the script called no module with parameters, so these are calls of functions alone; recorded "
    )
    assert line.endswith(f"next: torchparity compare {scripts.folder / 'run'} BASELINE")


def test_modules_alone_of_a_script_without_modules_are_nothing(scripts):
    ours = scripts.recorded("--level", "L0", "-o", "run", scripts.write(WITHOUT_MODULES))

    (line,) = ours.err.splitlines()
    assert ours.code == 2
    assert line.startswith("torchparity: no model was found for level L0: ")
    assert not (scripts.folder / "run").exists()


@pytest.mark.parametrize("steps", ["9", "4,7-8"])
def test_steps_that_never_come_leave_no_folder_and_say_what_to_ask_for(scripts, steps):
    ours = scripts.recorded("--steps", steps, "-o", "run", scripts.write(WITHOUT_MODULES))

    assert ours.code == 2
    nothing = f"no step was recorded: --steps is {steps}, and the script has steps 0 to 1; ask for one of these."
    assert ours.err == f"torchparity: {nothing}\n"
    assert not (scripts.folder / "run").exists()


def test_an_empty_folder_of_the_user_stays(scripts):
    (scripts.folder / "run").mkdir()

    assert scripts.recorded("--steps", 9, "-o", "run", scripts.write(WITHOUT_MODULES)).code == 2

    assert (scripts.folder / "run").is_dir()


def test_a_script_that_fails_before_the_last_wanted_step_is_told_without_contradiction(scripts):
    name = scripts.write(EVALUATED_WITH_GRADIENTS.replace("LAST", "raise ValueError"))

    ours = scripts.recorded("--steps", "1-3", "-o", "run", name)

    assert "; incomplete: step 2 was cut off by ValueError; step 3 did not come; next: " in ours.err


TWO_TRAINED = """
import torch
from torch import nn

class Critic(nn.Linear): pass
class Generator(nn.Linear): pass

def train(critic, generator):
    for model in (critic, generator):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizers.append(optimizer)
    for _ in range(2):
        critic(generator(torch.ones(2))).sum().backward()
        for optimizer in optimizers:
            optimizer.step()

optimizers = []
START
"""


@pytest.mark.parametrize(
    ("start", "name"),
    [("c, g = Critic(2, 2), Generator(2, 2)\ntrain(c, g)", "c"), ("train(Critic(2, 2), Generator(2, 2))", "Critic")],
)
def test_of_two_models_that_are_trained_the_one_that_was_not_taken_is_named(scripts, start, name):
    script = scripts.write(TWO_TRAINED.replace("START", start))

    ours = scripts.recorded("-o", "run", script)
    other = scripts.recorded("--model", name, "-o", "other", script)

    line = f"torchparity: the model is Generator; the script also trains Critic (--model {name})."
    assert ours.err.splitlines().count(line) == 1
    assert "Module.Critic.forward.0" in open_run(scripts.folder / "other").parts[0].records
    assert "also trains" not in other.err


def test_each_of_several_ranks_says_which_it_is(scripts, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")

    ours = scripts.recorded("-o", "run", "--level", "L1", scripts.write(WITHOUT_MODULES))

    assert ours.err.startswith("torchparity: rank 1: recorded ")
