"""Transformers and attention in evaluation take their fast path while they are recorded."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from torchparity import open_run
from torchparity.recording import capture

LEVELS = [("L0", True), ("L1", True), ("L1", False), ("mix", True)]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("level", "with_model"), LEVELS)
def test_a_transformer_in_evaluation_takes_its_fast_path(tmp_path, level, with_model, masked):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(3, 7, 32), torch.zeros(3, 7, dtype=torch.bool)
    padding[0, 4:] = True
    mask = padding if masked else None
    with torch.no_grad():
        alone = model(x, src_key_padding_mask=mask)
        with capture(tmp_path, model=model if with_model else None, level=level):
            recorded = model(x, src_key_padding_mask=mask)

    names = open_run(tmp_path).part().records
    assert torch.equal(alone, recorded)
    if level != "L0":
        assert "Torch._transformer_encoder_layer_fwd.1.forward" in names
    if level != "L1":
        assert "Module.layers.1.TransformerEncoderLayer.forward.0" in names


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_two_recordings_at_once_let_it_take_its_fast_path(tmp_path):
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).eval()
    x, padding = torch.randn(3, 7, 32), torch.zeros(3, 7, dtype=torch.bool)
    padding[0, 4:] = True
    with torch.no_grad():
        alone = model(x, src_key_padding_mask=padding)
        with capture(tmp_path / "a", model=model), capture(tmp_path / "b", level="L1"):
            recorded = model(x, src_key_padding_mask=padding)

    assert torch.equal(alone, recorded)


def test_what_asks_for_functions_of_a_tensors_own_is_answered_as_before(tmp_path):
    class Own(torch.Tensor):
        pass

    model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    model.linear1.register_forward_hook(lambda *_: None)
    with torch.no_grad(), capture(tmp_path, level="L1"):
        model(torch.ones(1, 2, 32))
        model(torch.ones(1, 2, 32).as_subclass(Own))

    names = open_run(tmp_path).part().records
    assert not any("_transformer_encoder_layer_fwd" in name for name in names)


def test_attention_in_evaluation_takes_its_fast_path(tmp_path):
    torch.manual_seed(0)
    model, x = nn.MultiheadAttention(32, 4, batch_first=True).eval(), torch.randn(2, 5, 32)
    with torch.no_grad():
        alone = model(x, x, x)[0]
        with capture(tmp_path, model=model):
            recorded = model(x, x, x)[0]

    assert torch.equal(alone, recorded)
    assert "Torch._native_multi_head_attention.0.forward" in open_run(tmp_path).part().records
