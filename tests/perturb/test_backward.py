"""Stage backward: gradients on perturbed inputs, compared with those that the training got."""

from __future__ import annotations

import types

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.support.perturbing import mode_fields, perturbing, rows_in, same, wrong_kernel


def backward_of(folder, api, mode="improve_precision"):
    return perturbing(folder, fuzz_stage="backward", list=[api], **mode_fields(mode))


def careless(gradient, result):
    """Return the gradient of tanh, in low precision with a wrong factor."""
    factor = 1.05 if gradient.dtype is torch.bfloat16 else 1.0
    return gradient * (1 - result * result) * factor


def test_a_wrong_backward_is_found_and_the_right_one_not(tmp_path):
    values = (torch.rand(64) * 0.1).bfloat16().requires_grad_()
    kernels = {"sound": lambda *both: careless(*(each.float() for each in both)).bfloat16(), "wrong": careless}
    for folder, kernel in kernels.items():
        with wrong_kernel("tanh_backward", kernel), backward_of(tmp_path / folder, "tanh"):
            torch.tanh(values).float().sum().backward()

    assert rows_in(tmp_path / "sound") == []
    (row,) = rows_in(tmp_path / "wrong")
    assert (row["stage"], row["api_name"], row["output_index"]) == ("backward", "Torch.tanh.0.backward", "")
    assert 0.04 < float(row["max_rel"]) < 0.06


@pytest.mark.parametrize(("mode", "is_found"), [("bit_noise", True), ("no_change", False)])
def test_the_gradient_is_that_of_the_perturbed_input(mode, is_found, tmp_path):
    """Near its pole the gradient of a tangent moves by thousands of units when the input moves by one."""
    values = torch.full((8,), 1.5707).requires_grad_()

    with backward_of(tmp_path, "tan", mode):
        torch.tan(values).sum().backward()

    assert bool(rows_in(tmp_path)) is is_found


@pytest.mark.parametrize("api", ["mse_loss", "norm", "prod", "std", "logsumexp", "dist", "var_mean"])
def test_gradients_of_elements_that_changed_places_are_compared_where_they_belong(api, tmp_path, capsys):
    values = torch.arange(1.0, 6.0, requires_grad=True)
    calls = {
        "mse_loss": lambda: torch.nn.functional.mse_loss(values, torch.zeros(5)),
        "dist": lambda: torch.dist(values, torch.zeros(5)),
        "logsumexp": lambda: torch.logsumexp(values, 0),
        "var_mean": lambda: sum(torch.var_mean(values)),
    }
    with perturbing(tmp_path, pert_mode="change_value", fuzz_stage="backward", list=[api]):
        calls.get(api, lambda: getattr(torch, api)(values))().backward()

    assert rows_in(tmp_path) == []
    assert "perturbed 1 call" in capsys.readouterr().out


def test_the_index_says_which_input_a_gradient_belongs_to(tmp_path):
    big, small = torch.rand(4, 512).bfloat16().requires_grad_(), torch.rand(512, 4).bfloat16().requires_grad_()

    def product(left, right):
        exact = left.dtype is torch.float32
        return (left.float() @ right.float() * (1.0 if exact else 1.02)).to(left.dtype)

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, left, right):
            ctx.save_for_backward(left, right)
            return left @ right

        @staticmethod
        def backward(ctx, gradient):
            left, right = ctx.saved_tensors
            return gradient @ right.T, product(left.T, gradient)

    mine = types.SimpleNamespace(__name__="mine", scaled=Scaled.apply)
    with backward_of(tmp_path, "scaled") as debugger:
        debugger.register_custom_api(mine, "scaled")
        mine.scaled(big, small).float().sum().backward()

    assert [row["output_index"] for row in rows_in(tmp_path)] == ["1"]


def test_an_input_that_was_written_since_is_left_out(tmp_path, capsys):
    leaf = torch.randn(4).requires_grad_()
    with backward_of(tmp_path, "exp", "bit_noise"):
        values = leaf * 2
        result = torch.exp(values)
        values.add_(1)  # exp keeps its result, so autograd does not mind
        result.sum().backward()

    assert "an input was written since" in capsys.readouterr().out
    assert same(leaf.grad, 2 * torch.exp(leaf.detach() * 2))


def test_of_two_backward_passes_the_first_is_checked(tmp_path, capsys):
    values = torch.randn(4, 8).requires_grad_()
    with backward_of(tmp_path, "softmax", "bit_noise"):
        result = F.softmax(values, -1).square().sum()
        result.backward(retain_graph=True)
        result.backward()

    assert "perturbed 1 call with bit_noise" in capsys.readouterr().out


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_a_checkpoint_does_again_is_checked_once(reentrant, tmp_path, capsys):
    values = torch.full((8,), 1.5707).requires_grad_()

    with backward_of(tmp_path, "tan", "bit_noise"):
        checkpoint(lambda each: torch.tan(each) * 2, values, use_reentrant=reentrant).sum().backward()

    (row,) = rows_in(tmp_path)
    assert row["api_name"].startswith("Torch.tan.0.backward")
    assert "perturbed 1 call with bit_noise" in capsys.readouterr().out


def test_what_autocast_lowers_is_raised_when_its_gradient_comes(tmp_path, capsys):
    layer, values = torch.nn.Linear(256, 4), torch.rand(4, 256)
    with backward_of(tmp_path, "linear"):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = layer(values)
        result.float().sum().backward()

    said = capsys.readouterr().out
    assert said.startswith("torchparity: perturbed 1 call with improve_precision")
    assert "left out" not in said


def test_a_call_without_a_gradient_is_left_out_for_that_reason(tmp_path, capsys):
    with backward_of(tmp_path, "exp", "bit_noise"):
        torch.exp(torch.ones(2))

    said = capsys.readouterr().out
    assert "1 call left out: no gradient is asked of it" in said
    assert "never called" not in said


def test_what_needs_no_gradient_keeps_nothing(tmp_path, capsys):
    with backward_of(tmp_path, "exp", "bit_noise"):
        torch.exp(torch.randn(4))
        with torch.no_grad():
            torch.exp(torch.randn(4).requires_grad_())

    assert "nothing was checked" in capsys.readouterr().out
