"""Calls are run again on copies that lie in memory as the tensors of the call do."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.support.perturbing import perturbing, rows_in, wrong_kernel
from torchparity.perturb import memory_layout
from torchparity.perturb.float_bits import bits_changed
from torchparity.perturb.memory_layout import copied, is_plain, shares_elements
from torchparity.perturb.perturbations import perturbation
from torchparity.perturb.subject import CancelledError, Subject

BASE = torch.arange(1.0, 241.0)
LAYOUTS = {
    "contiguous": BASE,
    "no elements": BASE[:0],
    "one element": BASE[7],
    "half of a row": BASE.view(4, 60)[:, :30],
    "column": BASE.view(8, 30)[:, 3],
    "every second": BASE.view(4, 60)[:, ::2],
    "unaligned": BASE[5:],
    "transposed": BASE.view(8, 30).t(),
    "channels last": BASE.view(2, 4, 5, 6).contiguous(memory_format=torch.channels_last),
    "expanded": BASE.view(8, 30)[:, :1].expand(8, 5),
    "windows": BASE.unfold(0, 4, 2),
    "complex": torch.view_as_complex(BASE.view(3, 40, 2))[:, 1:9],
    "conjugate": torch.view_as_complex(BASE.view(3, 40, 2))[:, 1:9].conj(),
    "negative": torch.view_as_complex(BASE.view(3, 40, 2)).conj().imag,
    "half precision": BASE.bfloat16().view(4, 60)[:, 1:31],
}
SHARING = ("expanded", "windows")
RESOLVED = ("conjugate", "negative")


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_copy_lies_as_its_original_and_shares_no_memory_with_it(name):
    tensor = LAYOUTS[name]
    before = tensor.clone()

    copy = copied(tensor)

    assert torch.equal(copy, tensor) and copy.dtype is tensor.dtype
    assert not copy._is_view() and not copy.requires_grad
    if name not in RESOLVED and tensor.numel():
        assert copy.stride() == tensor.stride()
        assert copy.data_ptr() % 64 == tensor.data_ptr() % 64
    copy.zero_() if name not in SHARING else copy.untyped_storage().fill_(0)
    assert torch.equal(tensor, before)


@pytest.mark.parametrize("name", LAYOUTS)
def test_elements_that_share_memory_are_told(name):
    assert shares_elements(LAYOUTS[name]) == (name in SHARING)


@pytest.mark.parametrize("name", LAYOUTS)
def test_only_what_torch_s_own_results_lie_as_is_plain(name):
    tensor = LAYOUTS[name]
    result = tensor + 0

    lies_so = (result.stride(), result.data_ptr() % 64) == (tensor.stride(), tensor.data_ptr() % 64)
    if name not in RESOLVED:
        assert is_plain(tensor) == lies_so


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "no elements"])
def test_noise_moves_the_elements_and_keeps_the_layout(name):
    tensor = LAYOUTS[name]

    moved = bits_changed(tensor, lambda bits, moves: bits + moves.to(bits.dtype))

    plain = bits_changed(
        tensor.clone(memory_format=torch.contiguous_format), lambda bits, moves: bits + moves.to(bits.dtype)
    )
    assert torch.equal(moved, plain) and not torch.equal(moved, tensor)
    if name not in RESOLVED:
        assert moved.stride() == tensor.stride() and moved.data_ptr() % 64 == tensor.data_ptr() % 64


def test_gradients_pass_through_a_copy():
    leaf = torch.randn(4, 60)[:, ::2].requires_grad_()

    copy = copied(leaf)
    copy.mul_(2)
    (copy * torch.arange(30)).sum().backward()

    assert copy.stride() == leaf.stride()
    assert torch.equal(leaf.grad, (2.0 * torch.arange(30)).expand(4, 30))


def test_few_elements_of_much_memory_are_not_copied(monkeypatch):
    monkeypatch.setattr(memory_layout, "_MOST_BYTES_BETWEEN", 100)
    column = LAYOUTS["column"]

    with pytest.raises(CancelledError, match="scattered over too much memory"):
        perturbation("no_change").perturbed(Subject("Torch.sum", (column,), {}, [column]))


@pytest.mark.parametrize("name", SHARING)
def test_elements_that_share_memory_are_not_exchanged(name):
    tensor = LAYOUTS[name]

    with pytest.raises(CancelledError, match="share memory"):
        perturbation("change_value").perturbed(Subject("Torch.sum", (tensor,), {}, [tensor]))


@pytest.mark.parametrize("fields", [{"pert_mode": "no_change"}, {"significance": 2}], ids=["no_change", "significance"])
@pytest.mark.parametrize("has_gradients", [True, False])
def test_a_kernel_that_torch_chooses_by_gradients_is_chosen_again(has_gradients, fields, tmp_path, capsys):
    """As that of an LSTM in float16 is on the CPU."""

    def kernel(values):
        return values.double().exp().float() * (1 + 0.01 * torch.is_grad_enabled())

    values = torch.rand(8, requires_grad=True)
    watched = perturbing(tmp_path, list=["cosh"], **fields)
    with wrong_kernel("cosh", kernel), torch.set_grad_enabled(has_gradients), watched:
        result = torch.cosh(values)

    said = capsys.readouterr().out
    assert result.requires_grad == has_gradients
    assert "beyond the thresholds" not in said or "0 results beyond" in said
    assert "not deterministic" not in said


CALLS = {
    "gelu": lambda values: F.gelu(values.chunk(2, -1)[1]),
    "sum": lambda values: values[:, ::2].sum(),
    "mean": lambda values: values.view(-1, 2, 96)[:, 1].mean(0),
    "batch_norm": lambda values: F.batch_norm(values.view(-1, 8, 12).bfloat16()[:, ::2], None, None, training=True),
    "softmax": lambda values: torch.softmax(values.view(-1)[1:-3].view(4, -1)[:, 1:], -1),
    "written in place": lambda values: values.clone()[:, ::2].sigmoid_(),
}


@pytest.mark.parametrize("stage", ["forward", "backward"])
@pytest.mark.parametrize("name", CALLS)
def test_a_sound_api_is_deterministic_on_a_part_of_a_tensor(name, stage, tmp_path, capsys):
    """A kernel goes another way for a dense copy, and rounds otherwise: sums and gelu by 1e-3 and more."""
    torch.manual_seed(0)
    values = torch.randn(128, 192)
    values = (values - values.mean()).requires_grad_(stage == "backward")
    apis = ["gelu", "sum", "mean", "batch_norm", "softmax", "sigmoid"]
    with perturbing(tmp_path, pert_mode="no_change", fuzz_stage=stage, list=apis):
        result = CALLS[name](values)
        if stage == "backward":
            result.backward(torch.randn_like(result))

    said = capsys.readouterr().out
    assert "perturbed 1 call" in said or name == "written in place"
    assert "not deterministic" not in said
    assert not rows_in(tmp_path)
