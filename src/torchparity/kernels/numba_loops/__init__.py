"""Loops over host memory, compiled by numba: one pass over a tensor or a pair."""

from torchparity.kernels.numba_loops import quiet_compiler  # noqa: F401 - it listens from its import on
