"""Lineage through calls: what a call wrote, and what it handed on without a record of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from torchparity.calls import Call, tensors_in
from torchparity.ops import Op, certain_writes, possible_writes, writes_in_part
from torchparity.recording.measuring.lineage import Lineage, Source
from torchparity.recording.measuring.measurement_cache import MeasurementCache


class CallLineage:
    """Tells the measurement cache who made and who wrote the tensors of a call."""

    def __init__(self, measurements: MeasurementCache) -> None:
        self._writes = measurements.writes
        self.lineage: Lineage = measurements.lineage

    def maker(self, call: Call, record: Source | None) -> Source:
        """Return the source of what a call returns: its record, or what it received where it has none."""
        if call.op.leaves_unwritten:
            return self.lineage.uninitialised
        return record or self.joined(call.inputs.tensors)

    def joined(self, tensors: Iterable[torch.Tensor]) -> Source:
        """Return the sources of tensors as one."""
        sources = self._writes.trace(tensors)
        return self.lineage.join(*sources) if sources else self.lineage.unknown

    def written(self, call: Call, output: Any, writer: Source) -> None:
        """Invalidate and trace what a call wrote."""
        op, tensors, writes = call.op, call.inputs.tensors, self._writes
        arguments = call.inputs.args
        if op.overwrites and arguments and output is arguments[0] and writes.overwrite(output, writer):
            return
        if "._foreach_" in op.name and op.writes and arguments and self._wrote_list(arguments[0], writer):
            return
        surely, in_part = certain_writes(op, call.args, call.kwargs), writes_in_part(op, call.args)
        if op.writes_unversioned:
            written = [tensor for tensor in tensors if op.may_write(tensor)]
            writes.invalidate(*written, writer=writer)
            if surely is None:
                possible = possible_writes(op, tensors, call.args, call.kwargs)
                writes.wrote(possible, writer, surely=False)
        elif op.writes and call.args and isinstance(output, torch.Tensor) and output is call.args[0]:
            # An alias of its storage may be at the same version number.
            writes.invalidate(output, writer=writer, in_part=in_part)
            self._written_otherwise(call, output, writer)
        elif output is None or "out" in call.kwargs:
            writes.invalidate(*tensors, writer=writer, in_part=in_part)  # fused optimizers bump no version
        if surely is not None:
            writes.wrote(tensors_in(surely), writer, surely=True)

    def _wrote_list(self, written: Any, writer: Source) -> bool:
        """Note that a call wrote a list of tensors; False for anything else.

        Whatever their versions: on CUDA torch bumps none for `_foreach_lerp_` with a number and for `_foreach_zero_`.
        """
        if not isinstance(written, (list, tuple)):
            return False
        if not self._writes.overwrite_all(written, writer):
            tensors = list(tensors_in(written))
            self._writes.invalidate(*tensors)
            self._writes.wrote(tensors, writer, surely=True)
        return True

    def wrote(self, op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Invalidate and trace what a call without a record wrote: of what it received."""
        tensors = list(tensors_in((*args, *kwargs.values())))
        if op.writes_unversioned:
            self._writes.invalidate(*(tensor for tensor in tensors if op.may_write(tensor)))
            written = possible_writes(op, tensors, args, kwargs)
        else:
            self._writes.invalidate(*tensors)
            written = self._writes.changed(tensors)
        if written:
            self._writes.wrote(written, self.joined(tensors), surely=False)

    def passed(self, op: Op, args: Sequence[Any], kwargs: dict[str, Any], output: Any) -> None:
        """Trace what a call without a record returned."""
        source = self.lineage.uninitialised
        if not op.leaves_unwritten:
            source = self.joined(tensors_in((*args, *kwargs.values())))
        self._writes.trace(tensors_in(output), source)

    def _written_otherwise(self, call: Call, output: torch.Tensor, writer: Source) -> None:
        """Trace writes in place of which a version tells nothing."""
        if call.op.name in ("Tensor.resize_", "Tensor.resize_as_"):
            self._writes.wrote([output], self.lineage.uninitialised, surely=False)
        elif output.is_inference() and call.op.name.endswith("_"):
            self._writes.wrote([output], writer, surely=not writes_in_part(call.op, call.args))
