"""What is recorded is what happened: gradients are autograd's, statistics NumPy's, checksums zlib's."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import torch

from tests.support.oracle import Oracle
from tests.support.zoo import ZOO, Training
from torchparity import open_run, to_torch
from torchparity.kernels import reference
from torchparity.recording import capture

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
            assert (kept.norm, kept.mean) == (None, exact.mean), item
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
