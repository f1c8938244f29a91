"""All inputs of a dtype through a function, against NumPy's float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from torchparity.check.exhaustive import COLUMNS, UNARY, check_exhaustively, function_named
from torchparity.check.exhaustive.running import all_inputs
from torchparity.errors import ConfigError


def one(function, dtype="float16"):
    (found,) = check_exhaustively([function], [dtype], "cpu")
    return found


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_all_inputs_are_all_bits(dtype):
    bits = all_inputs(dtype).view(torch.int16)

    assert bits.unique().numel() == bits.numel() == 65536


@pytest.mark.parametrize("name", ["exp", "sin", "log1p"])
def test_the_numbers_are_those_of_numpy(name):
    inputs = all_inputs(torch.float16).numpy()
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(inputs.astype(np.float64))
        rounded = exact.astype(np.float16)
        result = getattr(torch, name)(all_inputs(torch.float16)).numpy()
        # 65520 and above is inf in float16
        spacing = np.spacing(np.minimum(np.abs(exact), 65504).astype(np.float16)).astype(np.float64)
        below = np.abs(exact) < np.abs(rounded)  # rounded up to a power of two, where the spacing is another
        errors = np.abs(result.astype(np.float64) - exact) / np.where(below & (rounded % 1 == 0), np.nan, spacing)

    found = one(name)

    comparable = np.isfinite(errors)
    assert found.max_ulp >= errors[comparable].max()
    assert found.max_ulp <= 0.51
    assert found.misplaced == np.count_nonzero(np.isfinite(result) != np.isfinite(rounded))
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    assert found.correctly_rounded == np.count_nonzero(same) / 65536
    there = getattr(math, name)(found.worst_input)
    assert found.worst_exact == pytest.approx(there, rel=1e-14)
    assert abs(found.worst_result - there) > 0


@pytest.mark.parametrize("name", ["relu", "abs", "floor", "Functional.relu6", "torch.neg"])
@pytest.mark.parametrize("dtype", ["bf16", "float16"])
def test_functions_without_arithmetic_are_exact(name, dtype):
    found = one(name, dtype)

    assert (found.max_ulp, found.misplaced, found.correctly_rounded, str(found.status)) == (0, 0, 1, "pass")


def test_a_wrong_function_fails(monkeypatch):
    """torch's own, wrong in half precision alone, so that the reference stays right."""
    right = torch.expm1
    monkeypatch.setattr(torch, "expm1", lambda x: right(x) * (1 if x.dtype in (torch.float64, torch.float32) else 1.05))

    found = one("expm1", "bfloat16")

    assert str(found.status) == "error"
    assert found.max_ulp > 1


@pytest.mark.parametrize(
    ("name", "reason"), [("isnan", "torch.bool"), ("atan2", "argument"), ("sum", "shape"), ("linalg.inv", "")]
)
def test_what_is_no_unary_function_of_floats_says_so(name, reason):
    found = one(name)

    assert str(found.status) == "SKIP"
    assert reason in found.reason
    assert len(found.cells()) == len(COLUMNS)


def test_a_row_has_a_cell_for_each_column():
    assert len(one("gelu").cells()) == len(COLUMNS)


def test_at_least_forty_functions_are_named_and_exist():
    assert len(UNARY) >= 40
    assert all(callable(function_named(name)[1]) for name in UNARY)


def test_unknown_names_are_refused_before_anything_runs():
    with pytest.raises(ConfigError, match=r"no function 'gelo'.* Did you mean 'gelu'"):
        next(check_exhaustively(["exp", "gelo"], ["bf16"], "cpu"))
    with pytest.raises(ConfigError, match="only float16 and bfloat16"):
        next(check_exhaustively(["exp"], ["float32"], "cpu"))
