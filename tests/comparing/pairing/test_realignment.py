"""Runs that do not have the same calls: everything after the difference is aligned again."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import torchparity


class Net(nn.Module):
    """Four blocks of attention and MLP; one thing can be done differently in the second."""

    def __init__(self, variant: str) -> None:
        super().__init__()
        self.variant = variant
        self.qkv = nn.ModuleList(nn.Linear(8, 24) for _ in range(4))
        self.mlp = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def attend(self, x, index):
        q, k, v = self.qkv[index](x).split(8, -1)
        if self.variant == "fused":
            return F.scaled_dot_product_attention(q, k, v)
        return torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / 8**0.5, -1) @ v

    def block(self, x, index):
        x = x + self.attend(x, index)
        if self.variant == "extra" and index == 1:
            x = torch.mul(x, 1.0)
        return torch.add(x, F.gelu(self.mlp[index](x)))

    def forward(self, x):
        for index in range(4):
            if self.variant == "checkpoint":
                x = checkpoint(self.block, x, index, use_reentrant=False)
            else:
                x = self.block(x, index)
        return torch.mul(x, 2.0).sum()


def record(path, variant):
    torch.manual_seed(0)
    model = Net(variant)
    x = torch.randn(2, 5, 8)
    with torchparity.capture(path, model=model, level="mix", task="tensor"):
        model(x).backward()
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return record(tmp_path_factory.mktemp("runs") / "plain", "plain")


def unpaired(done):
    pairs = [pair for pair in done.parts[0].pairs if pair.how == "unmatched"]
    return {(pair.candidate or pair.baseline).name for pair in pairs}


def test_an_extra_call_shifts_nothing_after_it(plain, tmp_path):
    done = torchparity.compare(record(tmp_path / "extra", "extra"), plain)

    assert done.first_divergence is None, done.headline()
    # The extra mul is mul.0 there; the last one is mul.1 there and mul.0 here.
    assert unpaired(done) == {"Torch.mul.0.forward", "Torch.mul.0.backward"}
    assert done.counts()["realigned"] == 2
    assert all(row.verdict in ("Yes", "None") for row in done.parts[0].rows)


def test_recomputed_activations_shift_nothing(plain, tmp_path):
    done = torchparity.compare(record(tmp_path / "checkpoint", "checkpoint"), plain)

    assert done.first_divergence is None, done.headline()
    assert all("#recompute" in name for name in unpaired(done))
    assert done.counts()["candidate only"] > 10 and done.counts()["baseline only"] == 0


def test_a_fused_operator_stands_for_several(plain, tmp_path):
    done = torchparity.compare(record(tmp_path / "fused", "fused"), plain)

    assert done.first_divergence is None, done.headline()
    operators = {name.split(".")[1] for name in unpaired(done)}
    assert operators <= {"scaled_dot_product_attention", "softmax", "matmul", "div"}
    assert done.counts()["candidate only"] == 8 and done.counts()["baseline only"] == 32
    paired = [pair for pair in done.parts[0].pairs if pair.how != "unmatched"]
    assert sum("linear" in pair.candidate.name for pair in paired) == 16


def test_by_name_alone_the_shift_stays(plain, tmp_path):
    done = torchparity.compare(record(tmp_path / "extra", "extra"), plain, align="name")

    assert done.first_divergence is not None
    assert done.counts()["realigned"] == 0


def test_a_fault_after_an_extra_call_is_still_named(plain, tmp_path):
    torch.manual_seed(0)
    model = Net("extra")
    model.mlp[2].forward = lambda x: F.linear(x, model.mlp[2].weight, model.mlp[2].bias) * 1.01
    x = torch.randn(2, 5, 8)
    with torchparity.capture(tmp_path / "faulty", model=model, level="mix", task="tensor"):
        model(x).backward()

    found = torchparity.compare(tmp_path / "faulty", plain).first_divergence

    assert found.kind == "another call"
    assert (found.record, found.module) == ("Tensor.mul.0.forward", "Module.mlp.2.Linear.forward.0")
    assert found.deviation == pytest.approx(0.01, rel=0.2)
