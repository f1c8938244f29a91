"""Small models that between them do what real ones do; each trains three steps in a blink."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

Batch = Callable[[], tuple[torch.Tensor, ...]]


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 4))

    def forward(self, x):
        return self.layers(x)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.pool, self.fc = nn.MaxPool2d(2), nn.Linear(4 * 4 * 4, 4)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(x))
        y += x
        return self.fc(self.pool(self.relu(y)).flatten(1))


class TiedGpt(nn.Module):
    def __init__(self, width=8, heads=2, words=11):
        super().__init__()
        self.heads, self.embed = heads, nn.Embedding(words, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c))
        return self.head(x + self.down(F.gelu(self.up(self.norm2(x))))).flatten(0, 1)


class Llama(nn.Module):
    """Rotary positions, grouped queries, a gated MLP and root-mean-square norms."""

    def __init__(self, width=8, heads=4, groups=2, words=11):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.embed, self.scale = nn.Embedding(words, width), nn.Parameter(torch.ones(width))
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(width, 16, bias=False), nn.Linear(width, 16, bias=False)
        self.down, self.head = nn.Linear(16, width, bias=False), nn.Linear(width, words, bias=False)

    def norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale

    def rotate(self, x):
        angle = torch.outer(torch.arange(x.shape[-2], dtype=x.dtype), torch.tensor([1.0, 0.1][: x.shape[-1] // 2]))
        angle = torch.cat([angle, angle], -1)
        left, right = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-right, left], -1) * angle.sin()

    def forward(self, tokens):
        x = self.embed(tokens)
        b, t, _ = x.shape
        h = self.norm(x)
        q = self.rotate(self.q(h).view(b, t, self.heads, -1).transpose(1, 2))
        k = self.rotate(self.k(h).view(b, t, self.groups, -1).transpose(1, 2)).repeat_interleave(2, 1)
        v = self.v(h).view(b, t, self.groups, -1).transpose(1, 2).repeat_interleave(2, 1)
        score = (q @ k.transpose(-1, -2) / math.sqrt(self.size)).masked_fill(
            torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf")
        )
        x = x + (F.softmax(score, -1) @ v).transpose(1, 2).reshape(b, t, -1)
        h = self.norm(x)
        return self.head(x + self.down(F.silu(self.gate(h)) * self.up(h))).flatten(0, 1)


class Moe(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(6, 3)
        self.experts = nn.ModuleList(nn.Linear(6, 4) for _ in range(3))

    def forward(self, x):
        weight, chosen = self.router(x).softmax(-1).topk(2, -1)
        out = torch.zeros(x.shape[0], 4)
        for index, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == index)
            if rows.numel():
                out = out.index_add(0, rows, expert(x[rows]) * weight[rows, place].unsqueeze(-1))
        return out


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, stride=4)
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        return self.head(self.block(torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1))[:, 0])


class Rnn(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn, self.fc = kind(6, 5, num_layers=2, batch_first=True), nn.Linear(5, 4)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1])


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(4, 3, 2, stride=2), nn.Conv2d(6, 1, 1)

    def forward(self, x):
        low = F.leaky_relu(self.down(x), 0.1)
        high = F.interpolate(F.avg_pool2d(self.up(F.elu(self.middle(low))), 2), scale_factor=2, mode="bilinear")
        return self.out(torch.cat([x, high], 1)).mean((1, 2)).flatten(1)[:, :4]


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant
        self.first, self.blocks = nn.Linear(6, 8), nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.last = nn.Linear(8, 4)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(
                lambda value, block=block: F.dropout(F.gelu(block(value)), 0.2), x, use_reentrant=self.reentrant
            )
        return self.last(x)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x


class CustomFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        return Square.apply(self.fc(x)) + 1


class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.fc = nn.Parameter(torch.randn(4, dtype=torch.complex64)), nn.Linear(6, 4)

    def forward(self, x):
        spectrum = torch.fft.rfft(x, dim=-1) * self.weight
        return self.fc(torch.fft.irfft(spectrum, n=6, dim=-1)) + spectrum.abs() + spectrum.real


class NestedOutputs(nn.Module):
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 4)

        def forward(self, x, *, scale=1.0, extras=None):
            y = self.fc(x) * scale
            return {"logits": y, "aux": [y.sum(), None, {"deep": (y.max(dim=1), "text")}]}

    def __init__(self):
        super().__init__()
        self.inner = self.Inner()

    def forward(self, x):
        out = self.inner(x, scale=0.5, extras={"k": x[:, 0]})
        return out["logits"] + out["aux"][2]["deep"][0].values.unsqueeze(-1)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.out = nn.Linear(6, 6), nn.Linear(6, 4)
        self.unused, self.frozen = nn.Linear(2, 2), nn.Linear(6, 6).requires_grad_(False)

    def forward(self, x):
        return self.out(self.fc(torch.relu_(self.fc(x))) + self.frozen(x))


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        y = self.fc(x)
        z = y.clone()
        z[:, 0] = y[:, 1] * 2
        z.mul_(2).add_(y)
        z[1].mul_(3)
        return z.sigmoid_()


def _vectors():
    return torch.randn(5, 6), torch.randint(4, (5,))


def _sequences():
    return torch.randn(5, 3, 6), torch.randint(4, (5,))


def _images():
    return torch.randn(3, 3, 8, 8), torch.randint(4, (3,))


def _tokens():
    tokens = torch.randint(11, (2, 6))
    return tokens[:, :-1], tokens[:, 1:].flatten()


@dataclass(frozen=True)
class Animal:
    """A model, its data, and how it is trained."""

    build: Callable[[], nn.Module]
    batch: Batch
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD
    autocast: bool = False


ZOO = {
    "mlp": Animal(Mlp, _vectors, torch.optim.AdamW),
    "resnet": Animal(ResNet, _images),
    "gpt": Animal(TiedGpt, _tokens, torch.optim.AdamW),
    "llama": Animal(Llama, _tokens, lambda p, lr: torch.optim.AdamW(p, lr, foreach=True)),
    "moe": Animal(Moe, _vectors, lambda p, lr: torch.optim.Adam(p, lr, fused=True)),
    "vit": Animal(Vit, _images),
    "lstm": Animal(lambda: Rnn(nn.LSTM), _sequences),
    "gru": Animal(lambda: Rnn(nn.GRU), _sequences),
    "unet": Animal(UNet, _images),
    "checkpoint": Animal(lambda: Checkpointed(False), _vectors),
    "checkpoint-reentrant": Animal(lambda: Checkpointed(True), _vectors),
    "custom-function": Animal(CustomFunction, _vectors),
    "spectral": Animal(Spectral, _vectors),
    "autocast": Animal(Mlp, _vectors, torch.optim.AdamW, autocast=True),
    "nested": Animal(NestedOutputs, _vectors),
    "shared": Animal(Shared, _vectors),
    "in-place": Animal(InPlace, _vectors),
}


class Training:
    """Trains one animal; `state` is everything a recorder must not change."""

    def __init__(self, animal: Animal) -> None:
        torch.manual_seed(0)
        self.animal, self.model = animal, animal.build()
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = animal.optimizer(trained, lr=0.05)
        self.scaler = torch.amp.GradScaler("cpu", enabled=animal.autocast)
        self.losses: list[torch.Tensor] = []

    def step(self) -> None:
        inputs, labels = self.animal.batch()
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.animal.autocast):
            loss = F.cross_entropy(self.model(inputs), labels)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_([p for p in self.model.parameters() if p.grad is not None], 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.losses.append(loss.detach())

    def state(self) -> dict[str, object]:
        return {
            "losses": self.losses,
            "parameters": dict(self.model.state_dict()),
            "gradients": {name: p.grad for name, p in self.model.named_parameters()},
            "strides": {name: p.grad.stride() for name, p in self.model.named_parameters() if p.grad is not None},
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
        }
