"""The number of cores that a pass over a tensor may use, found out without side effects on torch.

numba starts its threads when it is first asked. Where it finds OpenMP it sets OpenMP's number
of threads and allows nested regions, for torch too, whose sums depend on the number of
threads. The previous settings are put back.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from importlib import import_module
from typing import Any

import numba

PARALLEL_FROM = 1 << 16  # elements from which a second core is worth waking


def cores() -> int:
    """Return how many threads a compiled pass may use: no more than torch would."""
    before = [(openmp, openmp.omp_get_max_threads(), openmp.omp_get_max_active_levels()) for openmp in _openmps()]
    limits = [int(threads) for _, threads, _ in before]
    try:
        return min(int(numba.get_num_threads()), *limits) if limits else int(numba.get_num_threads())
    finally:
        for openmp, threads, levels in before:
            openmp.omp_set_num_threads(threads)
            openmp.omp_set_max_active_levels(levels)


def _openmps() -> list[Any]:
    """Return the OpenMP that torch brought along and the one that came with numba; numba may use either."""
    libraries = []
    for library in (None, _numba_openmp_file()):
        with suppress(OSError, AttributeError, TypeError):
            openmp = ctypes.CDLL(library)
            _ = openmp.omp_get_max_threads, openmp.omp_set_num_threads
            _ = openmp.omp_get_max_active_levels, openmp.omp_set_max_active_levels
            libraries.append(openmp)
    return libraries


def _numba_openmp_file() -> str:
    with suppress(ImportError):
        return str(import_module("numba.np.ufunc.omppool").__file__)
    return ""
