"""Kernels in Triton that pass over results on a CUDA device once."""
