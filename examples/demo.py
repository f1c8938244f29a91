"""Record a small GPT on the CPU and on a simulated NPU with a wrong kernel, and let the comparison name it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import torchparity
from torchparity import NpuBehaviour, cli
from torchparity.simulation import WrongEpsilon

CPU, NPU, TABLES = Path("demo_run_cpu"), Path("demo_run_npu"), Path("demo_tables")
FAULT = "Functional.layer_norm.3.forward"
WIDTH, HEADS, WORDS = 32, 4, 50


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, HEADS, WIDTH // HEADS)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))
        return x + self.mlp(self.norm2(x))


class SmallGpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.blocks = nn.Embedding(WORDS, WIDTH), nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.embed(tokens))))


def record_two_steps(path: Path, device: str) -> None:
    torch.manual_seed(0)
    model = SmallGpt().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    tokens = torch.randint(WORDS, (4, 17)).to(device)
    with torchparity.capture(path, model=model, task="tensor") as recording:
        for _ in range(2):
            optimizer.zero_grad()
            logits = model(tokens[:, :-1])
            functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimizer.step()
            recording.step()


def run(*arguments: str) -> None:
    print(f"\n$ torchparity {shlex.join(arguments)}")
    cli.main(arguments)


def main() -> None:
    for folder in (CPU, NPU, TABLES):
        shutil.rmtree(folder, ignore_errors=True)
    wrong = WrongEpsilon("layer_norm", call=3, eps=1e-3)  # the fourth call's, in a kernel that ignores its argument
    torchparity.simulate_npu(NpuBehaviour(faults=(wrong,)))
    record_two_steps(CPU, "cpu")
    record_two_steps(NPU, "npu")
    run("compare", str(NPU), str(CPU), "-o", str(TABLES), "--format", "xlsx", "-hl")
    run("show", str(NPU), FAULT)
    beside = Path(os.path.relpath(sys.executable)).with_name("torchparity")
    command = "torchparity" if shutil.which("torchparity") or not beside.exists() else beside
    print(f"\nMore to see:\n  {command} show {CPU}\n  {command} show {NPU} {FAULT} --tensor output.0")


if __name__ == "__main__":
    main()
