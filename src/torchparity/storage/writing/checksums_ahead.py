"""Computing checksums of queued tensors in a thread pool, where there are spare cores."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from isal import isal_zlib

from torchparity.storage.shards.spare_cores import spare_cores
from torchparity.storage.writing.shared_tensor import SharedTensor


class ChecksumPool:
    """A pool of threads that compute CRC-32s; without spare cores there is none, and the caller computes them."""

    def __init__(self, cores: int | None = None) -> None:
        cores = spare_cores() if cores is None else cores
        self._pool = ThreadPoolExecutor(cores, "torchparity-checksum") if cores > 1 else None

    def crc32(self, tensor: SharedTensor) -> Future[int] | None:
        """Begin to compute the checksum of a tensor; None where the caller is to compute it."""
        if self._pool is None:
            return None
        try:
            return self._pool.submit(_crc32, tensor)
        except RuntimeError:  # the interpreter is shutting down
            return None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


def _crc32(tensor: SharedTensor) -> int:
    if tensor.ready is not None:
        tensor.ready()
    values = tensor.values
    return 0 if values is None else isal_zlib.crc32(values.raw())
