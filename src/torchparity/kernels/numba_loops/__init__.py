"""Loops over host memory, compiled by numba: one pass over a tensor or a pair."""
