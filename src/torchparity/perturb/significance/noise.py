"""Random last bits for stochastic arithmetic, and inputs raised to float64 for the truth."""

from __future__ import annotations

from typing import Any

import torch

from torchparity.perturb.float_bits import bits_changed, check_has_bits, has_bits
from torchparity.perturb.memory_layout import copied
from torchparity.perturb.subject import NOTHING_RAISED, Moved, Subject

_SEED = 0  # the same noise in every training


class LastBits:
    """Moves each element by one unit in its last place, up or down at random; keeps the contract `Perturbation`."""

    name = "significance"
    is_differentiable = False
    leaves_autocast = False
    raised = NOTHING_RAISED
    moves_elements = False
    moved: Moved = "all"

    def __init__(self) -> None:
        self._generators: dict[torch.device, torch.Generator] = {}

    def perturbed(self, subject: Subject) -> list[torch.Tensor]:
        check_has_bits(subject)
        return [bits_changed(tensor, self._moved) if has_bits(tensor) else copied(tensor) for tensor in subject.tensors]

    def changed(self, value: Any) -> Any:
        return value

    def _moved(self, bits: torch.Tensor, moves: torch.Tensor) -> torch.Tensor:
        device = bits.device
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(_SEED)
        up = torch.randint(0, 2, bits.shape, generator=self._generators[device], device=device, dtype=bits.dtype)
        return bits + (2 * up - 1) * moves.to(bits.dtype)


class Float64:
    """Raises every floating-point input to float64; keeps the contract `Perturbation`."""

    name = "float64"
    is_differentiable = True
    leaves_autocast = True
    raised = NOTHING_RAISED
    moves_elements = False
    moved: Moved = "none"

    def perturbed(self, subject: Subject) -> list[torch.Tensor]:
        return [raised(tensor) for tensor in subject.tensors]

    def changed(self, value: Any) -> Any:
        if isinstance(value, torch.dtype) and (value.is_floating_point or value.is_complex):
            return torch.complex128 if value.is_complex else torch.float64
        return value


def raised(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor, in double precision where it holds no integers."""
    if tensor.is_complex():
        return tensor.to(torch.complex128, copy=True)
    return tensor.to(torch.float64, copy=True) if tensor.is_floating_point() else tensor.clone()
