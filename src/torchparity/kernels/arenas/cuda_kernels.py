"""The kernels that measure tensors on one CUDA device, each compiled when it is first needed."""

from __future__ import annotations

from typing import Any, NamedTuple

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
        self._few: dict[tuple[int, bool, bool], CompiledKernel] = {}
        self._many: dict[tuple[int, bool], CompiledKernel] = {}

    def few(self, key: LaunchKey) -> CompiledKernel:
        """Return the kernel for up to `FEW` tensors."""
        which = key.kind, key.is_aligned, not key.layout
        kernel = self._few.get(which)
        if kernel is None:
            kernel = self._few[which] = self._compiled(measure_strided if key.layout else measure_few, key)
        return kernel

    def many(self, key: LaunchKey) -> CompiledKernel:
        """Return the kernel for tensors in a table."""
        which = key.kind, key.is_aligned
        kernel = self._many.get(which)
        if kernel is None:
            kernel = self._many[which] = self._compiled(measure_many, key)
        return kernel

    def _compiled(self, function: Any, key: LaunchKey) -> CompiledKernel:
        in_pairs = key.kind in self._in_pairs
        constants: tuple[int, ...] = (key.kind, key.is_aligned, self._checksums, key.size, in_pairs)
        if function is measure_strided:
            constants = (key.kind, key.size, in_pairs)
        return compiled_kernel(
            function,
            (ANY_INTEGER,) * _ARGUMENTS[function],
            constants,
            self._device,
            warps=chunks.WARPS,
            most_registers=_REGISTERS_IN_PAIRS if in_pairs else None,
        )
