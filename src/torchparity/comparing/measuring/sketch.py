"""The distance of two tensors that nobody stored, estimated from their sketches (docs/format.md)."""

from __future__ import annotations

from torchparity.sketches import estimated_norm, sums_of


def sketch_distance(left: bytes, right: bytes) -> float:
    """Return the estimated L2 norm of the difference of two tensors; their sketches may differ in width.

    The estimate is between 0.4 and 1.6 times the true norm for 19 of 20 differences and between 0.2 and 2.1 times
    for all but 1 in 200; 0 where the sketches are equal, as they are for 1 in 256 swaps of two elements. Sums in
    float32 add an error of up to 3e-7 times the norm of the tensors: closer ones cannot be told apart unless they
    were measured the same way. Only finite elements count.
    """
    if left == right:
        return 0.0
    return estimated_norm([one - other for one, other in zip(sums_of(left), sums_of(right), strict=True)])
