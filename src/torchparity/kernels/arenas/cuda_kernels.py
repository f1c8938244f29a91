"""The kernels that measure tensors on one CUDA device, each compiled when it is first needed."""

from __future__ import annotations

from typing import NamedTuple

from torchparity.kernels.compiled_kernel import ANY_INTEGER, CompiledKernel, compiled_kernel
from torchparity.kernels.layouts import Layout
from torchparity.kernels.triton_launch import chunks
from torchparity.kernels.triton_launch.measure import FEW, measure_few, measure_many, measure_strided


class LaunchKey(NamedTuple):
    """The kind of tensors that one launch measures."""

    kind: int  # the code of their dtype
    size: int  # of an element, in bytes
    is_aligned: bool  # they begin at multiples of 16 bytes
    elements: int = 0  # of each, where they are strided
    layout: Layout = ()  # where they are strided


_REGISTERS_IN_PAIRS = 128  # of a thread at most, so that four programs fit on a processor
_ARGUMENTS = {measure_few: 2 * FEW + 3, measure_many: 5, measure_strided: FEW + 11}


class MeasuringKernels:
    """Kernels for few tensors, for many, and for strided ones."""

    def __init__(self, device: int, capability: tuple[int, int], *, exact: bool, checksums: bool) -> None:
        self._device, self._checksums = device, checksums
        pairs_since = {} if exact else chunks.PAIRS_SINCE  # their sums begin in float32
        self._in_pairs = frozenset(kind for kind, since in pairs_since.items() if capability >= since)
        self._compiled: dict[tuple[int, bool, bool, bool], CompiledKernel] = {}

    def kernel(self, key: LaunchKey, *, is_few: bool) -> CompiledKernel:
        """Return the kernel for some tensors."""
        kind, size, is_aligned, _, layout = key
        which = (kind, is_aligned, is_few, bool(layout))
        kernel = self._compiled.get(which)
        if kernel is None:
            in_pairs = kind in self._in_pairs
            function = measure_strided
            constants: tuple[int, ...] = (kind, size, in_pairs)
            if not layout:
                function = measure_few if is_few else measure_many
                constants = (kind, is_aligned, self._checksums, size, in_pairs)
            kernel = self._compiled[which] = compiled_kernel(
                function,
                (ANY_INTEGER,) * _ARGUMENTS[function],
                constants,
                self._device,
                warps=chunks.WARPS,
                most_registers=_REGISTERS_IN_PAIRS if in_pairs else None,
            )
        return kernel
