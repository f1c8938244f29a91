"""The signs of a sketch (`signs.py`) as tensors of a device, for the arena that uses torch's own operators."""

from __future__ import annotations

import torch

from torchparity.kernels import signs

_VECTORS = signs.GROUP // signs.LANES
_PIECE = 1 << 20  # elements at a time: the operators need copies
_MOST_KEPT = 1 << 17  # groups whose signs stay on the device: 8 MB


class DeviceSigns:
    """Adds up sketches on one device in one dtype."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self._device, self._dtype = device, dtype
        flips = [[-1.0 if flip else 1.0 for flip in signs.shared_flips(vector)] for vector in range(_VECTORS)]
        self._flips = torch.tensor(flips, dtype=dtype, device=device).view(2, 2, 2, signs.LANES)
        lanes = signs.PLACE_SIGNS[:, : signs.LANES].tolist()
        self._lanes = torch.tensor(lanes, dtype=dtype, device=device)
        self._groups = self._computed(0, 1)

    def sums(self, finite: torch.Tensor, start: int) -> torch.Tensor:
        """Return the 8 sums of a flat tensor, the first of whose elements is number `start`, which begins a group."""
        pieces = range(0, finite.numel(), _PIECE)
        each = [self._sums_of_piece(finite[first : first + _PIECE], start + first) for first in pieces]
        return each[0] if len(each) == 1 else torch.stack(each).sum(dim=0)

    def _sums_of_piece(self, finite: torch.Tensor, start: int) -> torch.Tensor:
        groups = -(-finite.numel() // signs.GROUP)
        whole = torch.zeros(groups * signs.GROUP, dtype=self._dtype, device=self._device)
        whole[: finite.numel()] = finite
        rows = whole.view(groups, 2, 2, 2, signs.LANES) * self._flips
        for dimension in (1, 2, 3):  # the fast Walsh-Hadamard transform
            left, right = rows.unbind(dimension)
            rows = torch.stack((left + right, left - right), dimension)
        of_groups = self._of_groups(start // signs.GROUP, groups)[:, :, None]
        return (rows.view(groups, signs.SUMS, signs.LANES) * self._lanes * of_groups).sum(dim=(0, 2))

    def _of_groups(self, first: int, count: int) -> torch.Tensor:
        last = first + count
        if last > _MOST_KEPT:
            return self._computed(first, count)
        if last > len(self._groups):
            self._groups = self._computed(0, 1 << (last - 1).bit_length())
        return self._groups[first:last]

    def _computed(self, first: int, count: int) -> torch.Tensor:
        # Not from_numpy in float64: some devices have none, not even to convert from.
        of_groups = torch.from_numpy(signs.signs_of(signs.group_words(first, count))).to(self._dtype)
        return of_groups.to(self._device)
