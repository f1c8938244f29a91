"""The model every capture benchmark trains: a pre-norm GPT in three sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Size:
    """Layers, width, heads, vocabulary, batch and tokens of a model and its step."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    batch: int
    tokens: int
    dtype: torch.dtype


CPU = Size(layers=8, width=512, heads=8, vocabulary=8_192, batch=2, tokens=256, dtype=torch.float32)
GPU = Size(layers=16, width=2_048, heads=16, vocabulary=32_000, batch=4, tokens=1_024, dtype=torch.bfloat16)
LARGE = Size(layers=8, width=4_096, heads=32, vocabulary=32_000, batch=8, tokens=2_048, dtype=torch.bfloat16)
ON_GPU = {"small": GPU, "large": LARGE}


class Block(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.norm1, self.norm2 = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.out = nn.Linear(size.width, size.width)
        self.up, self.down = nn.Linear(size.width, 4 * size.width), nn.Linear(4 * size.width, size.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.tokens, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def training(size: Size, device: str) -> tuple[nn.Module, Callable[[], torch.Tensor]]:
    """Return the model and a function that trains one step and returns the loss."""
    torch.manual_seed(0)
    model = Gpt(size).to(device=device, dtype=size.dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(size.vocabulary, (size.batch, size.tokens + 1), device=device)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, step
