"""Small models to run side by side: a clean one, and twins of it with one fault each."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F


class HalvesGradient(torch.autograd.Function):
    """The identity, with a wrong gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient / 2


class RightGradient(torch.autograd.Function):
    """The identity, with its gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clone()


class Attention(nn.Module):
    """Attention by softmax and products, or as `fused` says by one call."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fused, self.scale = False, width**-0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(x).chunk(3, -1)
        if self.fused:
            return self.out(F.scaled_dot_product_attention(query, key, value, scale=self.scale))
        return self.out(torch.softmax(query @ key.transpose(-1, -2) * self.scale, -1) @ value)


class Block(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)
        self.gelu, self.identity = "none", RightGradient

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))
        hidden = self.identity.apply(F.gelu(self.up(x), approximate=self.gelu))
        return x + self.drop(self.down(hidden))


class Net(nn.Module):
    """Three blocks over an embedding of 31 tokens."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(31, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.head = nn.Linear(width, 31)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def twins() -> tuple[Net, Net, torch.Tensor]:
    """Return two models with the same weights, and tokens for them."""
    torch.manual_seed(7)
    model = Net()
    return copy.deepcopy(model), model, torch.randint(31, (4, 8))
