"""Scripts in which a step is not one call, one backward and one optimizer step."""

from __future__ import annotations

import pytest

from torchparity import open_run

TWO_OPTIMIZERS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
generator, critic = nn.Linear(2, 4), nn.Linear(4, 1)
of_generator = torch.optim.SGD(generator.parameters(), lr=0.1)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.1)
for (real,) in DataLoader(TensorDataset(torch.randn(6, 4)), batch_size=2):
    noise = torch.randn(2, 2)
    of_critic.zero_grad()
    (critic(generator(noise).detach()).mean() - critic(real).mean()).backward()
    of_critic.step()
    of_generator.zero_grad()
    (-critic(generator(noise)).mean()).backward()
    of_generator.step()
print(generator.weight.tolist(), critic.weight.tolist())
"""
SKIPPED_BY_THE_SCALER = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for step in range(3):
    optimizer.zero_grad()
    scaler.scale(model(torch.randn(2, 4) * (float("inf") if step == 1 else 1)).mean()).backward()
    scaler.step(optimizer)
    scaler.update()
print(model.weight.tolist(), scaler.get_scale())
"""
COMPILED = """
import torch
from torch import nn
torch.manual_seed(0)
model = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).mean().backward()
    optimizer.step()
print([parameter.tolist() for parameter in model.parameters()])
"""
COMPILED_LATER = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    called = model if step == 0 else torch.compile(model, backend="eager")
    optimizer.zero_grad()
    called(torch.randn(2, 4)).mean().backward()
    optimizer.step()
print([parameter.tolist() for parameter in model.parameters()])
"""
COMPILED_STEP = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train():
    optimizer.zero_grad()
    model(torch.ones(2, 4)).mean().backward()
    optimizer.step()

train()
compiled = torch.compile(train, backend="eager")
for _ in range(3):
    compiled()
print(model.weight.tolist())
"""
COMPILED_LOSS = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def loss_of(inputs):
    return model(inputs).mean()

compiled = torch.compile(loss_of, backend="eager", fullgraph=True)
for step in range(3):
    optimizer.zero_grad()
    (loss_of if step == 0 else compiled)(torch.randn(2, 4)).backward()
    optimizer.step()
print(model.weight.tolist())
"""
CLOSURES = """
import torch
from torch import nn
torch.manual_seed(0)
model, inputs = nn.Linear(4, 1), torch.randn(5, 4)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

def closure():
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    return loss

for _ in range(3):
    print(optimizer.step(closure).item())
"""


@pytest.mark.parametrize(
    ("script", "record"),
    [
        pytest.param(TWO_OPTIMIZERS, "Module.Linear.forward.1", id="two optimizers"),
        pytest.param(SKIPPED_BY_THE_SCALER, "Module.Linear.forward.0", id="a step that the scaler skips"),
        pytest.param(COMPILED, "Tensor.mean.0.forward", id="compiled"),
        pytest.param(COMPILED_LATER, "Tensor.mean.0.forward", id="compiled after a step"),
        pytest.param(COMPILED_LOSS, "Tensor.add_.0.forward", id="compiled with the loss"),
        pytest.param(CLOSURES, "Module.Linear.forward.2", id="closures"),
    ],
)
def test_three_iterations_are_three_steps(scripts, script, record):
    name = scripts.write(script)

    bare, recorded = scripts.bare(name), scripts.recorded("-o", "run", name)

    assert recorded.code == 0, recorded.err
    assert bare.out and recorded.out == bare.out
    parts = open_run(scripts.folder / "run").parts
    assert [part.step for part in parts] == [0, 1, 2]
    assert all(record in part.records for part in parts)


def test_steps_that_are_compiled_as_a_whole_are_skipped_and_counted(scripts):
    name = scripts.write(COMPILED_STEP)

    bare, recorded = scripts.bare(name), scripts.recorded("-o", "run", "--steps", "0-3", name)

    assert recorded.code == 0, recorded.err
    assert recorded.out == bare.out
    assert "train is compiled and was skipped" in recorded.err and "asked for" not in recorded.err
