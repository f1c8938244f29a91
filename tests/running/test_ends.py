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
