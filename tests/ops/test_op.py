"""Which of torch's functions are recorded."""

from __future__ import annotations

import torch
from torch import nn

from torchparity import open_run
from torchparity.recording import capture


def test_apis_that_the_peer_never_sees_are_recorded(tmp_path):
    x = torch.randn(2, 4)
    with capture(tmp_path):
        torch.fft.fft(x)
        torch.special.erf(x)
        torch.ops.aten.relu(x)
        -x  # noqa: B018
        x[0]
        x.clone()
        x.copy_(x * 2)
        torch.randn(3)
        torch.ones(3)
        torch.tensor([1.0])
        torch.linalg.inv(torch.eye(2))
        x.sum().item()
        torch.stack(tensors=[x, x])
        torch.nn.LSTM(4, 3)(x)
        torch._foreach_add_([x, x], 1.0)

    names = {name.rsplit(".", 2)[0] for name in open_run(tmp_path).part().records}

    assert names >= {
        "Torch.fft.fft", "Torch.special.erf", "Aten.relu", "Tensor.neg", "Tensor.__getitem__", "Tensor.clone",
        "Tensor.copy_", "Torch.randn", "Torch.ones", "Torch.tensor", "Torch.linalg.inv", "Tensor.item", "Torch.stack",
        "VF.lstm", "Torch._foreach_add_",
    }  # fmt: skip


def test_views_are_recorded_on_request(tmp_path):
    x = torch.randn(2, 4)
    for views in (False, True):
        with capture(tmp_path / str(views), settings={"views": views}):
            x.view(4, 2).t().T.add(1)
    names = [list(open_run(tmp_path / str(views)).part().records) for views in (False, True)]

    assert names[0] == ["Tensor.add.0.forward"]
    assert names[1] == ["Tensor.view.0.forward", "Tensor.t.0.forward", "Tensor.T.0.forward", "Tensor.add.0.forward"]


def test_an_operator_with_the_name_of_a_question_or_a_view_is_recorded(tmp_path, operators):
    with capture(tmp_path):
        operators.dim(torch.ones(2))
        nn.functional.unfold(torch.ones(1, 1, 4, 4), 2)

    records = open_run(tmp_path).part().records
    assert "Ops.torchparity_tests.dim.0.forward" in records
    assert "Functional.unfold.0.forward" in records
