"""What is recorded is what happened: gradients are autograd's, statistics NumPy's, checksums zlib's."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import torch
from torch import nn

from tests.kernels.test_cpu import assert_same
from tests.recording.oracle import Oracle
from tests.recording.zoo import ZOO, Training
from torchparity import from_torch, open_run, to_torch
from torchparity.kernels import reference
from torchparity.kernels.checksums import crc_checksum
from torchparity.recording import capture
from torchparity.records import TensorLeaf

# Recomputation runs calls again under names of their own, and a custom function's inside has no graph.
REENTRANT = {"checkpoint-reentrant"}


def record_one_step(name, path, **options):
    training = Training(ZOO[name])
    with capture(path, model=training.model, **options):
        training.step()
    return training, open_run(path).part()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", sorted(set(ZOO) - REENTRANT))
def test_recorded_gradients_are_autograds(name, tmp_path):
    _, part = record_one_step(name, tmp_path, level="L1", task="tensor")
    oracle = Oracle()
    training = Training(ZOO[name])
    with oracle:
        training.step()
    recorded = {item: leaf for item, leaf in part.tensors() if ".backward" in item and "#" not in item}

    missing = sorted(set(oracle.gradients) - set(recorded))

    assert len(oracle.gradients) > 3
    assert missing == []
    for item, expected in oracle.gradients.items():
        ours = to_torch(part.tensor(recorded[item]))
        assert ours.shape == expected.shape, item
        assert torch.allclose(ours, expected, rtol=1e-6, atol=1e-12, equal_nan=True), item


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ZOO)
def test_parameter_gradients_are_what_the_optimizer_gets(name, tmp_path):
    taken = {}
    training = Training(ZOO[name])
    original = training.scaler.unscale_

    def before_unscaling(optimizer):
        parameters = training.model.named_parameters(remove_duplicate=False)
        taken.update({key: p.grad.clone() for key, p in parameters if p.grad is not None})
        original(optimizer)

    training.scaler.unscale_ = before_unscaling
    with capture(tmp_path, model=training.model, level="L0", task="tensor"):
        training.step()
    part = open_run(tmp_path).part()
    recorded = {
        f"{record.name.split('.parameters_grad')[0].removeprefix('Module.')}|{key}": leaf
        for record in part.records.values()
        if record.direction == "parameters_grad"
        for key, leaf in record.gradients.items()
    }

    found = 0
    for key, expected in taken.items():
        path, _, parameter = key.rpartition(".")
        owner = training.model.get_submodule(path)
        full = ".".join(part for part in (path, type(owner).__name__) if part)
        leaf = recorded.get(f"{full}|{parameter}")
        if leaf is not None:
            found += 1
            assert torch.equal(to_torch(part.tensor(leaf)), expected), key
    assert found == len(recorded) > 0


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ZOO)
def test_statistics_are_those_of_the_values(name, tmp_path):
    _, part = record_one_step(name, tmp_path, task="tensor")

    for item, leaf in part.tensors():
        exact = reference.statistics(part.tensor(leaf))
        kept = leaf.statistics
        assert (kept.max, kept.min) == pytest.approx((exact.max, exact.min), nan_ok=True), item
        if exact.norm is None:  # bool
            assert kept.norm is None
        else:
            assert kept.norm == pytest.approx(exact.norm, rel=1e-6, nan_ok=True), item
        scale = exact.finite_norm or 0
        assert kept.mean == pytest.approx(exact.mean, rel=1e-6, abs=1e-7 * scale, nan_ok=True), item
        assert (kept.nan_count, kept.zero_count) == (exact.nan_count, exact.zero_count), item


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["mlp", "llama", "spectral", "autocast"])
def test_checksums_are_crc_32(name, tmp_path):
    settings = {"tensor": {"summary_mode": "md5"}}
    _, part = record_one_step(name, tmp_path, task="tensor", settings=settings)

    tensors = list(part.tensors())

    assert tensors
    for item, leaf in tensors:
        assert leaf.checksum == f"{zlib.crc32(np.ascontiguousarray(part.tensor(leaf).array)):08x}", item


def test_the_values_are_those_before_and_after_an_in_place_call(tmp_path):
    x = torch.tensor([-1.0, 2.0])
    with capture(tmp_path, task="tensor"):
        x.relu_().add_(1)

    part = open_run(tmp_path).part()
    values = {item: part.tensor(leaf).array.tolist() for item, leaf in part.tensors()}

    assert values == {
        "Tensor.relu_.0.forward.input.0": [-1, 2],
        "Tensor.relu_.0.forward.output.0": [0, 2],
        "Tensor.add_.0.forward.input.0": [0, 2],
        "Tensor.add_.0.forward.output.0": [1, 3],
    }


def test_memory_that_is_used_again_is_another_tensor(tmp_path):
    with capture(tmp_path, task="tensor"):
        for value in range(200):
            torch.full((256,), float(value)).mul(1.0)

    part = open_run(tmp_path).part()

    for value in range(200):
        (output,) = (leaf for leaf in part.records[f"Tensor.mul.{value}.forward"].output)
        assert isinstance(output, TensorLeaf)
        assert part.tensor(output).array[0] == value


def test_memory_that_changes_behind_the_version_is_looked_at_again(tmp_path):
    x = torch.ones(4)
    with capture(tmp_path, task="tensor"):
        x.mul(1.0)
        x.data.fill_(5)
        x.mul(1.0)
        x.numpy()[:] = 7
        x.mul(1.0)

    part = open_run(tmp_path).part()

    assert [part.tensor(part.records[f"Tensor.mul.{n}.forward"].input_args[0]).array[0] for n in range(3)] == [1, 5, 7]


BROKEN = torch.tensor([torch.nan, 1.0, torch.inf, -torch.inf, 0.0])
VIEWS = {
    "overlapping": torch.arange(10.0).as_strided((4, 3), (2, 1)),
    "expanded": torch.arange(10.0).expand(3, 10),
    "expanded-twice": torch.arange(10.0).view(2, 1, 5).expand(2, 4, 5).expand(3, 2, 4, 5),
    "expanded-number": torch.tensor(3.0).expand(2, 3),
    "expanded-nonfinite": BROKEN.expand(4, 5),
    "expanded-integers": torch.arange(10).expand(3, 10),
    "expanded-bools": (torch.arange(10) > 3).expand(3, 10),
    "expanded-halves": torch.arange(10.0).to(torch.bfloat16).expand(3, 10),
    "expanded-complex": torch.complex(torch.arange(3.0), torch.ones(3)).conj().expand(2, 3),
    "windows": torch.arange(10.0).unfold(0, 4, 1),
    "steps": torch.arange(10.0)[1::3],
    "empty": torch.empty(0, 3),
    "expanded-empty": torch.zeros(1).expand(0, 5),
}


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("summary", ["statistics", "md5"])
@pytest.mark.parametrize("view", list(VIEWS))
def test_views_of_every_kind_are_measured_and_stored_as_they_show(view, task, summary, tmp_path):
    class Nothing(nn.Module):
        def forward(self, tensor):
            return None

    model, shown = Nothing(), from_torch(VIEWS[view])
    with capture(tmp_path, model=model, task=task, summary_mode=summary):
        model(VIEWS[view])

    part = open_run(tmp_path).part()
    leaf = part.records["Module.Nothing.forward.0"].input_args[0]
    assert_same(leaf.statistics, reference.statistics(shown), 1e-6)
    assert leaf.checksum == (crc_checksum(shown) if summary == "md5" else None)
    if task == "tensor":
        assert part.tensor(leaf).raw().tobytes() == shown.raw().tobytes()


@pytest.mark.parametrize("used", [0, 1, 2])
def test_an_input_of_which_not_every_way_is_used_has_its_gradient(used, tmp_path):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x):
            return self.left(x), self.right(x)

    model, leaf = Two(), torch.randn(4, 3, requires_grad=True)
    x = leaf * 1
    x.retain_grad()
    with capture(tmp_path, model=model, level="L0", task="tensor"):
        outputs = model(x)
        (sum(outputs) if used == 2 else outputs[used]).sum().backward()

    part = open_run(tmp_path).part()
    recorded = part.tensor(part.records["Module.Two.backward.0"].output[0])
    assert torch.equal(to_torch(recorded), x.grad)
