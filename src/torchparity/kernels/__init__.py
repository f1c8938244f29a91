"""What is kept of a tensor's values: statistics and checksum.

Plugin folder: each `x.py` holds a `PLUGIN` with

    statistics(tensor: HostTensor) -> Statistics     every value as SPEC defines it, in float64
    checksum(tensor: HostTensor) -> str              CRC-32 of the contiguous bytes, 8 hex digits

`reference` is the definition in plain NumPy that every faster kernel is tested against.

A recording measures many tensors with few launches: an arena (contract in `_arena.py`) for
each device, `HostArena` for the CPU, `_cuda.CudaArena` in Triton, `_portable.PortableArena`
with torch's own operators for every other device and dtype.

`_pairs.compare_pair` reads two tensors once and returns how far they are apart.
"""
