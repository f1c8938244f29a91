"""What is kept of a tensor's values: statistics and checksum.

Plugin folder: each `x.py` holds a `PLUGIN` with

    statistics(tensor: HostTensor) -> Statistics     every value as SPEC defines it, in float64
    checksum(tensor: HostTensor) -> str              CRC-32 of the contiguous bytes, 8 hex digits

`reference` is the definition in plain NumPy that every faster kernel is tested against.
"""
