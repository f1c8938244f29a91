"""How many cores a pass over a tensor may use, asked so that nobody else notices.

numba starts its threads when it is first asked, and where it finds OpenMP it sets OpenMP's
number of threads and lets regions nest: for torch, too, where that is loaded, whose sums
depend on how many threads there are. What was set before is put back.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from importlib import import_module
from typing import Any

import numba


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
    found = []
    for library in (None, _file_of_numbas()):
        with suppress(OSError, AttributeError, TypeError):
            openmp = ctypes.CDLL(library)
            _ = openmp.omp_get_max_threads, openmp.omp_set_num_threads
            _ = openmp.omp_get_max_active_levels, openmp.omp_set_max_active_levels
            found.append(openmp)
    return found


def _file_of_numbas() -> str:
    with suppress(ImportError):
        return str(import_module("numba.np.ufunc.omppool").__file__)
    return ""
