"""The pass over tensors on a CUDA device, in Triton.

measure        the kernels: which chunk of which tensor a program takes
chunks         how the elements of a tensor are shared among programs
floats, integers, checksum      what is computed of a chunk
sketch_signs   the signs of the sketch
"""
