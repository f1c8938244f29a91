"""Deviations on their way from a device to the host, which goes on meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchparity.devices import Wait, device_for
from torchparity.tensors import HostTensor


class Arriving:
    """Some deviations: those that a device has are copied together, one copy for each device and dtype."""

    def __init__(self, deviations: Sequence[torch.Tensor | float]) -> None:
        self._numbers = [0.0 if isinstance(each, torch.Tensor) else each for each in deviations]
        together: dict[tuple[torch.device, torch.dtype], list[tuple[int, torch.Tensor]]] = {}
        for place, each in enumerate(deviations):
            if isinstance(each, torch.Tensor):
                together.setdefault((each.device, each.dtype), []).append((place, each))
        self._copies = [
            ([place for place, _ in entries], _copied(device, [each for _, each in entries]))
            for (device, _), entries in together.items()
        ]

    def numbers(self) -> list[float]:
        """Return the deviations in their order; wait for those that are not there yet."""
        for places, (copy, wait) in self._copies:
            if wait is not None:
                wait()
            for place, number in zip(places, copy.array.tolist(), strict=True):
                self._numbers[place] = number
        return self._numbers


def _copied(device: torch.device, deviations: list[torch.Tensor]) -> tuple[HostTensor, Wait | None]:
    return device_for(device).copy_to_host(torch.stack(deviations), _Own())


class _Own:
    """Memory for copies, where what is copied is ours already."""

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor
