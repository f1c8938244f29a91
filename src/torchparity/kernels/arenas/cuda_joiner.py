"""Joins the rows of chunks on a CUDA device: one row for each tensor is copied to the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from torchparity.kernels import row
from torchparity.kernels.arenas.cuda_buffers import ROW_BYTES, Results
from torchparity.kernels.compiled_kernel import ANY_INTEGER, compiled_kernel
from torchparity.kernels.cuda_waiting import beside_captures, copied_to_host
from torchparity.kernels.triton_launch.join import join_chunks

_WARPS = 4
Integers = npt.NDArray[np.int64]


class RowJoiner:
    """Joins rows, from any thread, on a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._kernel = compiled_kernel(join_chunks, (ANY_INTEGER,) * 3, (), device.index or 0, warps=_WARPS)

    def joined(
        self,
        results: Sequence[Results],
        first_rows: Integers,
        numbers: Integers,
        are_float: npt.NDArray[np.bool_],
        measured: torch.cuda.Event | None,
    ) -> npt.NDArray[np.float64]:
        """Return a row for each tensor: its chunks have `numbers` rows from `first_rows` on, counted over all results.

        Extremes of integers are the bits of an int64. The device waits for `measured` by itself: when it has measured
        the last tensor it joins the rows, whatever the host does then.
        """
        befores = np.array([part.before for part in results], np.int64)
        addresses = np.array([part.first_row for part in results], np.int64)
        part_of = np.searchsorted(befores, first_rows, side="right") - 1
        firsts = addresses[part_of] + (first_rows - befores[part_of]) * ROW_BYTES
        table = torch.from_numpy(np.concatenate([firsts, numbers, are_float]).astype(np.int64))
        with beside_captures(), torch.cuda.stream(self._stream):
            if measured is not None:
                self._stream.wait_event(measured)
            on_device = table.pin_memory().to(self._device, non_blocking=True)
            joined = torch.empty((len(numbers), row.FIELDS), dtype=torch.float64, device=self._device)
            arguments = on_device.data_ptr(), len(numbers), joined.data_ptr()
            self._kernel.launch(len(numbers), self._stream.cuda_stream, arguments)
        return copied_to_host(joined, self._stream).numpy()

    def copied(self, checksums: torch.Tensor) -> npt.NDArray[np.uint32]:
        """Return the remainders of chunks, which the host joins."""
        return copied_to_host(checksums, self._stream).numpy().view(np.uint32)
