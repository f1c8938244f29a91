"""ResNet-50, as the paper has it (He et al. 2015): torchvision is not needed for it."""

from __future__ import annotations

import torch
from torch import nn


def convolution(wide: int, out: int, size: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution without a bias, and its normalisation."""
    return nn.Sequential(nn.Conv2d(wide, out, size, stride, size // 2, bias=False), nn.BatchNorm2d(out))


class Bottleneck(nn.Module):
    """Three convolutions and a way around them."""

    def __init__(self, wide: int, narrow: int, stride: int) -> None:
        super().__init__()
        out = 4 * narrow
        self.body = nn.Sequential(
            convolution(wide, narrow, 1),
            nn.ReLU(),
            convolution(narrow, narrow, 3, stride),
            nn.ReLU(),
            convolution(narrow, out, 1),
        )
        self.around = convolution(wide, out, 1, stride) if stride > 1 or wide != out else nn.Identity()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(inputs) + self.around(inputs))


def resnet50(classes: int = 1000) -> nn.Sequential:
    """Return the network of fifty layers."""
    layers: list[nn.Module] = [convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    wide = 64
    for narrow, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(count):
            layers.append(Bottleneck(wide, narrow, stride if index == 0 else 1))
            wide = 4 * narrow
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, classes))
