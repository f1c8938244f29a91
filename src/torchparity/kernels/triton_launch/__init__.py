"""The pass over tensors on a CUDA device, in Triton."""
