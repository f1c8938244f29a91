"""The largest deviation of two results on a CUDA device, in Triton: one kernel that reads both once."""
