"""Checksums of parts join to that of the whole."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from torchparity.kernels.numba_loops.crc import joined


@pytest.mark.parametrize("lengths", [(0, 0), (0, 7), (7, 0), (1, 1), (1000, 12_345)])
def test_checksums_of_parts_join_to_that_of_the_whole(lengths):
    first, second = (np.random.default_rng(size).bytes(size) for size in lengths)

    assert joined(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)
