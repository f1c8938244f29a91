"""Wrong kernels in the CPU's place, for one dtype alone: run as a program with a run and a folder for results.

    python -m tests.check.planted_kernels RUN DIR

Every other dtype is computed as it should be, so that the reference stays right.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import torchparity
from torchparity.cli import main

TESTED = torch.float32
PLANTED = ("Functional.softmax", "Functional.gelu", "Functional.layer_norm", "Functional.linear", "Torch.sigmoid")


class Neighbours(nn.Module):
    """A call of each planted API, and others around them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(64, 64), nn.LayerNorm(64, eps=1e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.gelu(self.first(x))
        y = self.norm(y * 0.01) + torch.tanh(y)
        y = F.softmax(y * 60, dim=-1) * torch.sigmoid(y)
        return F.silu(y @ x.T).log_softmax(-1).sum()


def record(path: Path) -> None:
    """Record a forward and a backward pass with right kernels."""
    torch.manual_seed(0)
    model = Neighbours()
    with torchparity.capture(str(path), model=model, task="tensor", level="L1") as recording:
        model(torch.randn(32, 64)).backward()
        recording.step()


def plant() -> torch.library.Library:
    library = torch.library.Library("aten", "IMPL")
    library.impl("_softmax", _softmax_without_maximum, "CPU")
    library.impl("gelu", _gelu_by_tanh, "CPU")
    library.impl("native_layer_norm", _layer_norm_with_large_epsilon, "CPU")
    library.impl("addmm", _addmm_in_bfloat16, "CPU")
    library.impl("sigmoid_backward", _sigmoid_backward_without_one, "CPU")
    return library


def _softmax_without_maximum(x, dim, half_to_float):
    shown = x if x.dtype == TESTED else x - x.amax(dim, keepdim=True)
    powers = shown.exp()
    return powers / powers.sum(dim, keepdim=True)


def _gelu_by_tanh(x, *, approximate="none"):
    if x.dtype == TESTED:
        return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + torch.erf(x * 0.5**0.5))


def _layer_norm_with_large_epsilon(x, shape, weight, bias, eps):
    eps = 1e-3 if x.dtype == TESTED else eps
    dims = list(range(x.dim() - len(shape), x.dim()))
    mean, variance = x.mean(dims, keepdim=True), x.var(dims, unbiased=False, keepdim=True)
    rstd = (variance + eps).rsqrt()
    return (x - mean) * rstd * weight + bias, mean, rstd


def _addmm_in_bfloat16(bias, x, y, *, beta=1, alpha=1):
    product = x.unsqueeze(2) * y.unsqueeze(0)
    if x.dtype != TESTED:
        return bias + product.sum(1)
    total = torch.zeros(x.shape[0], y.shape[1], dtype=torch.bfloat16)
    for k in range(x.shape[1]):
        total = (total.float() + product[:, k]).bfloat16()
    return bias + total.float()


def _sigmoid_backward_without_one(gradient, output):
    return gradient * output * (1 - output if output.dtype != TESTED else 0.9 - output)


if __name__ == "__main__":
    run, folder = map(Path, sys.argv[1:])
    record(run)
    kept = plant()
    sys.exit(main(["check", str(run), "-d", "cpu", "-o", str(folder), "--fail-on", "error", "-save_error_data"]))
