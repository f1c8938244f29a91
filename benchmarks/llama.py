"""A small Llama of transformers, whose step is all calls and hardly any work."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


def training() -> tuple[nn.Module, Callable[[], torch.Tensor]]:
    """Return the model and a function that trains one step and returns the loss."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(256, (2, 32))

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, step
