"""The model of a script: the module that is trained, whatever else the script calls before it."""

from __future__ import annotations

import pytest

from torchparity import open_run

START = """
import copy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
teacher = nn.Linear(4, 2)
student = nn.Sequential(nn.Linear(4, 2), nn.Tanh())
data = torch.randn(3, 5, 4)
"""
TEACHER_IN_EVERY_STEP = """
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for inputs in data:
    with torch.no_grad():
        wanted = teacher(inputs)
    optimizer.zero_grad()
    (student(inputs) - wanted).square().mean().backward()
    optimizer.step()
"""
FROZEN_TEACHER = """
teacher.requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for inputs in data:
    (student(inputs) - teacher(inputs)).square().mean().backward()
    optimizer.step()
"""
FEATURES_FIRST = """
with torch.no_grad():
    wanted = torch.stack([teacher(inputs) for (inputs,) in DataLoader(TensorDataset(data), batch_size=None)])
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for inputs, labels in DataLoader(TensorDataset(data, wanted), batch_size=None):
    optimizer.zero_grad()
    (student(inputs) - labels).square().mean().backward()
    optimizer.step()
"""
NO_OPTIMIZER = """
for inputs in data:
    with torch.no_grad():
        wanted = teacher(inputs)
    (student(inputs) - wanted).square().mean().backward()
    with torch.no_grad():
        for parameter in student.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
"""
EVALUATED_BEFORE = """
with torch.no_grad():
    print([student(inputs).sum().item() for inputs in data])
student(data[0])
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for inputs in data:
    optimizer.zero_grad()
    student(inputs).square().mean().backward()
    optimizer.step()
"""
MASTER_WEIGHTS = """
masters = [parameter.detach().double().requires_grad_() for parameter in student.parameters()]
optimizer = torch.optim.SGD(masters, lr=0.1)
for inputs in data:
    with torch.no_grad():
        wanted = teacher(inputs)
    (student(inputs) - wanted).square().mean().backward()
    with torch.no_grad():
        for master, parameter in zip(masters, student.parameters()):
            master.grad, parameter.grad = parameter.grad.double(), None
        optimizer.step()
        for master, parameter in zip(masters, student.parameters()):
            parameter.copy_(master)
"""
FUNCTIONAL_CALL = """
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for inputs in data:
    teacher(inputs)
    doubled = {name: parameter * 2 for name, parameter in student.named_parameters()}
    optimizer.zero_grad()
    torch.func.functional_call(student, doubled, (inputs,)).square().mean().backward()
    optimizer.step()
"""
FROZEN_ENCODER = """
encoder = nn.Linear(4, 4).requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for inputs in data:
    optimizer.zero_grad()
    student(encoder(inputs)).square().mean().backward()
    optimizer.step()
"""
SCRIPTS = {
    "a teacher in every step": TEACHER_IN_EVERY_STEP,
    "a teacher without no_grad": FROZEN_TEACHER,
    "features first": FEATURES_FIRST,
    "no optimizer": NO_OPTIMIZER,
    "evaluated before": EVALUATED_BEFORE,
    "master weights": MASTER_WEIGHTS,
    "functional_call": FUNCTIONAL_CALL,
    "a frozen encoder": FROZEN_ENCODER,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_the_module_that_is_trained_is_the_model(scripts, script):
    name = scripts.write(START + script + "print([each.tolist() for each in student.parameters()])\n")

    bare, recorded = scripts.bare(name), scripts.recorded("-o", "run", name)

    assert recorded.code == 0, recorded.err
    assert recorded.out == bare.out
    parts = open_run(scripts.folder / "run").parts
    assert [part.step for part in parts] == [0, 1, 2]
    for part in parts:
        modules = {record for record in part.records if record.startswith("Module.")}
        assert {"Module.Sequential.forward.0", "Module.0.Linear.backward.0"} <= modules
        assert not {"Module.Sequential.forward.1", "Module.Linear.forward.0"} & modules


@pytest.mark.parametrize("wanted", ["0", "0-1", "2"])
def test_the_steps_of_an_evaluation_are_forgotten_when_the_training_begins(scripts, wanted):
    name = scripts.write(START + FEATURES_FIRST)

    assert scripts.recorded("-o", "run", "--steps", wanted, name).code == 0

    first, _, last = wanted.partition("-")
    parts = open_run(scripts.folder / "run").parts
    assert [part.step for part in parts] == list(range(int(first), int(last or first) + 1))
    assert all("Module.0.Linear.backward.0" in part.records for part in parts)


def test_a_script_that_only_evaluates_is_recorded_although_it_has_an_optimizer(scripts):
    name = scripts.write(f"{START}student(data[0])\noptimizer = torch.optim.SGD(student.parameters(), lr=0.1)\n")

    assert scripts.recorded("-o", "run", name).code == 0

    (part,) = open_run(scripts.folder / "run").parts
    assert "Module.Sequential.forward.0" in part.records


IMAGE = """
image = torch.zeros(2, 4, requires_grad=True)
network = student.requires_grad_(False)
optimizer = torch.optim.SGD([image], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    network(image).square().mean().backward()
    optimizer.step()
"""
NEVER_CALLED_ITSELF = """
class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 3), nn.Linear(3, 1)
    def loss(self, inputs):
        return self.decoder(self.encoder(inputs)).square().mean()
regression = copy.deepcopy(Regression())
optimizer = torch.optim.SGD(regression.parameters(), lr=0.1)
for inputs in data:
    optimizer.zero_grad()
    regression.loss(inputs).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("script", "record"),
    [
        pytest.param(IMAGE, "Module.0.Linear.forward.0", id="an image is trained"),
        pytest.param(NEVER_CALLED_ITSELF, "Module.decoder.Linear.backward.0", id="its layers are called"),
    ],
)
def test_the_model_is_around_what_is_called_with_gradients(scripts, script, record):
    name = scripts.write(START + script)

    assert scripts.recorded("-o", "run", name).code == 0

    parts = open_run(scripts.folder / "run").parts
    assert [part.step for part in parts] == [0, 1, 2]
    assert all(record in part.records for part in parts)


ONE_AFTER_THE_OTHER = """
for model in (student, teacher):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (inputs,) in LOOP:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("loop", ["[(inputs,) for inputs in data]", "DataLoader(TensorDataset(data), batch_size=None)"])
def test_models_that_are_trained_one_after_the_other_are_recorded(scripts, loop):
    name = scripts.write(START + ONE_AFTER_THE_OTHER.replace("LOOP", loop))

    assert scripts.recorded("-o", "run", name).code == 0

    parts = open_run(scripts.folder / "run").parts
    assert [part.step for part in parts] == [0, 1, 2, 3, 4, 5]
    modules = [{record for record in part.records if record.startswith("Module.")} for part in parts]
    assert all("Module.Sequential.forward.0" in each for each in modules[:3])
    assert all("Module.Linear.backward.0" in each for each in modules[3:])


LOOSE_PARAMETER = """
weight = nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
for inputs in data:
    (inputs * weight).square().mean().backward()
    optimizer.step()
"""
DICTIONARY = """
weights = nn.ParameterDict({"scale": torch.ones(4)})
optimizer = torch.optim.SGD(weights.parameters(), lr=0.1)
for inputs in data:
    (inputs * weights["scale"]).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("script", [LOOSE_PARAMETER, DICTIONARY], ids=["a parameter", "a dictionary"])
def test_the_first_step_of_a_script_that_calls_no_module_is_step_0(scripts, script):
    name = scripts.write(START + script)

    assert scripts.recorded("--level", "L1", "--steps", "0", "-o", "run", name).code == 0

    (part,) = open_run(scripts.folder / "run").parts
    assert {"Tensor.mul.0.forward", "Tensor.mul.0.backward"} <= set(part.records)
    leaf = next(item.leaf for item in part.records["Tensor.mul.0.forward"].items() if item.name == "input.1")
    assert (leaf.statistics.max, leaf.statistics.min) == (1.0, 1.0)  # before it was trained


def test_steps_are_counted_where_the_weights_of_modules_are_used_without_calling_them(scripts):
    script = TEACHER_IN_EVERY_STEP.replace("student(inputs)", "nn.functional.linear(inputs, student[0].weight)")
    name = scripts.write(START + script.replace("teacher(inputs)", "inputs[:, :2]"))

    assert scripts.recorded("--level", "L1", "--steps", "0-1", "-o", "run", name).code == 0

    first, second = open_run(scripts.folder / "run").parts
    assert (first.step, second.step) == (0, 1)
    assert not any(".forward" in record and "linear" in record for record in first.records)
    assert "Functional.linear.0.forward" in second.records


FIRST_MODEL_GOES = """
import gc, weakref

def train(width):
    model = nn.Sequential(nn.Linear(4, width), nn.Linear(width, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs in data:
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()
    return weakref.ref(model)

first = train(3)
gc.collect()
print("the first model lives:", first() is not None)
second = train(5)
gc.collect()
print("the second model lives:", second() is not None)
"""


def test_a_model_that_the_script_lets_go_is_kept_alive_by_nobody(scripts):
    script = scripts.write(START + FIRST_MODEL_GOES)

    bare, recorded = scripts.bare(script), scripts.recorded("-o", "run", script)

    assert recorded.out == bare.out
    assert "lives: False" in bare.out
    assert len(open_run(scripts.folder / "run").parts) == 6
