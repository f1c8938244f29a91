"""Runs of one program in other kernels and dtypes: nothing in them is beyond expectation."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from itertools import groupby

import pytest
import torch

from tests.support.zoo import ZOO, Training
from torchparity import capture, compare
from torchparity.comparing.precision.comparisons import call_of, received_of, returned_of
from torchparity.comparing.precision.expectation import expected
from torchparity.naming import OPTIMIZER, parse_record

ANIMALS = ["resnet", "gpt", "unet", "vit"]
DTYPES = {"bfloat16": torch.bfloat16, "float64": torch.float64}


@contextlib.contextmanager
def without_mkldnn():
    before = torch.backends.mkldnn.set_flags(False)[0]
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(before)


def record(name, folder, variant="plain"):
    """Record two training steps of an animal."""
    training = Training(ZOO[name])
    if variant in DTYPES:
        _convert(training, DTYPES[variant])
    torch.manual_seed(1)
    with without_mkldnn() if variant == "mkldnn" else contextlib.nullcontext(), capture(folder, task="tensor") as run:
        for _ in range(2):
            training.step()
            run.step()
    return folder


def _convert(training, dtype):
    training.model.to(dtype)
    batch = training.animal.batch

    def converted():
        return tuple(part.to(dtype) if part.is_floating_point() else part for part in batch())

    training.animal = replace(training.animal, batch=converted)
    parameters = [parameter for parameter in training.model.parameters() if parameter.requires_grad]
    training.optimizer = training.animal.optimizer(parameters, lr=0.05)


def judged(candidate, baseline):
    """Yield every output that both runs have, with its deviation and what was expected."""
    for part in compare(candidate, baseline).parts:
        groups = {name: list(group) for name, group in groupby(part.comparisons, key=lambda entry: entry.record)}
        for name, group in groups.items():
            if group[0].direction not in ("forward", "backward"):
                continue
            behind = groups.get(str(parse_record(name).forward), [])
            call = call_of(group, behind, in_optimizer=part.parents.get(name) == OPTIMIZER)
            received = [fact for entry in group if entry.is_input and (fact := received_of(entry)) is not None]
            for entry in group:
                if not entry.is_input and entry.deviation is not None and (output := returned_of(entry)) is not None:
                    yield entry.name, entry.deviation, expected(output, received, call)


@pytest.fixture(scope="module")
def baselines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("baselines")
    return {name: record(name, folder / name) for name in ANIMALS}


@pytest.mark.parametrize("variant", ["mkldnn", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ANIMALS)
def test_nothing_is_beyond_expectation_in_a_clean_pair(name, variant, baselines, tmp_path):
    candidate = record(name, tmp_path / "candidate", variant)

    outputs = list(judged(candidate, baselines[name]))

    assert sum(deviation > 0 for _, deviation, _ in outputs) > 10
    assert [row for row in outputs if row[1] > row[2].tolerance] == []


@pytest.mark.parametrize("name", ["gpt", "vit", "unet"])
def test_little_is_expected_of_equal_inputs(name, baselines, tmp_path):
    outputs = list(judged(record(name, tmp_path / "again"), baselines[name]))

    assert {deviation for _, deviation, _ in outputs} == {0.0}
    assert [row for row in outputs if ".forward." in row[0] and row[2].tolerance > 2e-5] == []
