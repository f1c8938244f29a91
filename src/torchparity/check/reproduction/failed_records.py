"""The records of a failed call, with the values that were used and those that came out of the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from torchparity.check.execution import Performed
from torchparity.kernels import reference
from torchparity.records import Record, TensorLeaf
from torchparity.tensors import HostTensor
from torchparity.tensors.torch_tensors import from_torch


def failed_records(performed: Performed) -> Iterator[tuple[Record, dict[str, HostTensor]]]:
    """Yield the forward record of a call and, where it has one, the backward record, with values by item."""
    inputs = {f"input.{given.path}": given.tensor for given in performed.call.arguments.inputs()}
    yield _filled(performed.case.forward, inputs | _named("output", performed.device.outputs))
    if performed.case.backward is not None and performed.call.seeds is not None:
        seeds = _named("input", performed.call.seeds.made())
        yield _filled(performed.case.backward, seeds | _named("output", performed.device.gradients))


def _named(role: str, values: Mapping[str, object]) -> dict[str, torch.Tensor]:
    return {f"{role}.{path}": value for path, value in values.items() if isinstance(value, torch.Tensor)}


def _filled(record: Record, tensors: dict[str, torch.Tensor]) -> tuple[Record, dict[str, HostTensor]]:
    """Return a record whose leaves are these tensors; a leaf without one keeps its form alone."""
    values: dict[str, HostTensor] = {}

    def change(item: str, leaf: TensorLeaf) -> TensorLeaf:
        tensor = tensors.get(item)
        if tensor is None:
            return TensorLeaf(dtype=leaf.dtype, shape=leaf.shape, requires_grad=leaf.requires_grad)
        host = values[item] = from_torch(tensor)
        return TensorLeaf(
            dtype=host.dtype,
            shape=host.shape,
            statistics=reference.statistics(host),
            requires_grad=leaf.requires_grad,
        )

    return record.replace_tensors(change), values
