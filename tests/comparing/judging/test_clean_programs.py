"""One program in two ways, other rounding, dtypes, batches, or the same again: nobody is to blame."""

from __future__ import annotations

import contextlib
import re

import pytest
import torch
from torch import nn

import torchparity
from tests.faultbed.plant import ExactKernels, sink
from tests.support.processes import run_python
from torchparity.calls.guard.mode_stack import take_off
from torchparity.cli import main

TASKS = pytest.mark.parametrize("task", ["statistics", "tensor"])


LOOP = """
import sys, torch, torchparity
from torch import nn
path, task = sys.argv[1:]
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
rows = [(torch.full((8,), float(index)), index % 3) for index in range(32)]
loader = torch.utils.data.DataLoader(rows, batch_size=8, shuffle=True)
optimizer = torch.optim.Adam(model.parameters())
with torchparity.capture(path, model=model, task=task, level="mix") as recording:
    for x, label in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), label).backward()
        optimizer.step()
        recording.step()
"""


@TASKS
def test_the_loop_of_the_readme_with_a_shuffling_loader_agrees_with_itself(task, tmp_path, capsys):
    runs = [str(tmp_path / name) for name in ("candidate", "baseline")]
    for path, filling in zip(runs, ("85", "34"), strict=True):  # of memory that glibc hands out
        done = run_python(LOOP, path, task, environment={"MALLOC_PERTURB_": filling})
        assert done.returncode == 0, done.stderr

    code = main(["compare", *runs, "--fail-on", "divergence"])

    assert code == 0 and re.match("The runs (agree|are identical)", capsys.readouterr().out)
    parts = [torchparity.open_run(path).part(step=0) for path in runs]
    made = next(name for name in parts[0].records if "empty" in name)
    values = [part.records[made].output[0].statistics.max for part in parts]
    assert values[0] != values[1], "the allocator hands out the same bytes in both runs"


class Cnn(nn.Module):
    """Convolutions with a bias in front of batch norm: the gradient of that bias is rounding and nothing else."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)))
        return self.head(x.mean((2, 3)))


def cnn(*, around=contextlib.nullcontext, dtype=torch.float32, device="cpu", autocast=False):
    """Return a program that trains the network, each step inside of `around()`."""

    def program():
        model, x = Cnn(), torch.randn(8, 3, 16, 16)
        model, x, label = model.to(device, dtype), x.to(device, dtype), torch.arange(8, device=device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step():
            optimizer.zero_grad()
            with around():
                with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                    loss = nn.functional.cross_entropy(model(x), label)
                loss.backward()
            optimizer.step()

        return model, step

    return program


@contextlib.contextmanager
def exact_kernels():
    mode = ExactKernels()
    sink(mode)
    try:
        yield
    finally:
        take_off(mode)


@contextlib.contextmanager
def without_onednn():
    before = torch.backends.mkldnn.set_flags(False)[0]
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(before)


@TASKS
@pytest.mark.parametrize("around", [exact_kernels, without_onednn])
def test_a_bias_in_front_of_batch_norm_is_not_blamed_for_rounding(verdict, task, around):
    found = verdict(cnn(around=around), cnn(), steps=2, task=task)

    assert found.kind == "agree" and "within rounding" in found.sentence, found.sentence
    assert 0 < found.agreement.largest < 1e-3 < found.agreement.remainder, "its gradient is 0 but for rounding"
    assert " where little but rounding is left, " in found.sentence


@TASKS
@pytest.mark.parametrize(
    ("changes", "dtypes"),
    [
        pytest.param({"dtype": torch.bfloat16}, "bfloat16 against float32", id="bfloat16"),
        pytest.param({"autocast": True}, "bfloat16 against float32", id="autocast"),
        pytest.param({"dtype": torch.float64}, "float64 against float32", id="float64"),
    ],
)
def test_other_dtypes_are_called_by_name(verdict, task, changes, dtypes):
    found = verdict(cnn(**changes), cnn(), steps=2, task=task)

    assert found.kind == "dtype", found.sentence
    assert f"different dtypes, {dtypes} in " in found.sentence and "all within what that explains" in found.sentence
    assert " records, first Functional.conv2d.0.forward: all within" in found.sentence


@TASKS
def test_micro_batches_against_a_whole_batch(verdict, task):
    def program(parts):
        model, x = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), torch.randn(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            optimizer.zero_grad()
            for part in x.chunk(parts):
                (model(part).square().mean() / parts).backward()
            optimizer.step()

        return model, step

    found = verdict(lambda: program(2), lambda: program(1), steps=2, task=task)

    assert found.kind == "batch size" and found.first is None, found.sentence
    assert "batches of 4 where the baseline has 8; what does not depend on it agrees" in found.sentence


@contextlib.contextmanager
def tf32(*, is_on):
    matmul, conv = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = is_on
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, conv


@pytest.mark.gpu
@TASKS
def test_a_gpu_without_tf32_agrees_with_the_cpu(verdict, task, cuda):
    with tf32(is_on=False):
        found = verdict(cnn(device=cuda), cnn(), steps=2, task=task)

    assert found.kind == "agree", found.sentence


@pytest.mark.gpu
@TASKS
def test_a_gpu_with_tf32_is_told_by_its_name(verdict, task, cuda):
    with tf32(is_on=True):
        found = verdict(cnn(device=cuda), cnn(), steps=2, task=task)

    assert "TF32" in " ".join([found.sentence, *found.remarks])


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_numbers_that_are_quantized_may_turn(verdict, task):
    class Quantized(nn.Module):
        def __init__(self, noise):
            super().__init__()
            self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 4)
            with torch.no_grad():
                self.first.weight.mul_(1 + noise * torch.randn(64, 64))

        def forward(self, x):
            h = self.first(x)
            return self.last(h + ((h / 0.01).round().clamp(-128, 127) * 0.01 - h).detach())

    def program(noise):
        def start():
            x, model = torch.randn(4096, 64), Quantized(noise)
            return model, lambda: model(x).square().mean().backward()

        return start

    assert verdict(program(1e-7), program(0.0), task=task).kind == "agree"


class Normed(nn.Module):
    """A convolution with a bias in front of a batch norm, whose gradient is rounding and nothing else."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x):
        return self.last(self.norm(self.conv(x)).relu().mean((2, 3)))


def trained(optimizer, noise=0.0, rate=0.05):
    """Return a program that trains the network; `noise` moves its weights by a rounding or two."""

    def start():
        x, model = torch.randn(4, 3, 8, 8), Normed()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + noise * (2 * torch.rand(parameter.shape) - 1))
        stepping = optimizer(model.parameters(), lr=rate)

        def step():
            stepping.zero_grad()
            model(x).square().mean().backward()
            stepping.step()

        return model, step

    return start


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_modules_alone_show_nothing_but_rounding(verdict, task, optimizer):
    found = verdict(trained(optimizer, 1e-7), trained(optimizer), steps=3, task=task, level="L0")

    assert found.kind == "agree"


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_modules_alone_show_weights_that_were_trained_otherwise(verdict, task, optimizer):
    found = verdict(trained(optimizer, 1e-7, rate=0.1), trained(optimizer), steps=3, task=task, level="L0")

    assert (found.kind, found.first.step) == ("weights", 1)
