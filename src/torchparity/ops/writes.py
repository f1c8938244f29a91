"""Arguments that a call writes although no version counter tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchparity.ops.effects import PARTIAL_WRITES, Effect
from torchparity.ops.op import Kind, Op
from torchparity.overwrites import BATCH, COLLECTIVES, SENDING

_TRAINING = 5  # the place of `training`, or of its like, in all functions that have running buffers
_BUFFERS = {"Functional": slice(1, 3)}
_OTHER_BUFFERS = slice(3, 5)
_BUFFER_NAMES = ("running_mean", "running_var")
_NEVER_WRITTEN = (1, 5)  # gradients and counts of steps, which a fused optimizer takes


def certain_writes(op: Op, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
    """Return the arguments that a call writes wholly, in lists too; None where nobody can tell."""
    if op.kind is Kind.COLLECTIVE:
        name = op.name.partition(".")[2]
        if name in SENDING:
            return []
        if name == BATCH:
            return [each.tensor for each in (*args, *kwargs.values())[0] if each.op.__name__ == "irecv"]
        written = COLLECTIVES.get(name)
        if written is None:
            return None
        return [args[written.place] if written.place < len(args) else kwargs.get(written.keyword)]
    if op.name.startswith("Torch._fused_"):
        return [argument for place, argument in enumerate(args) if place not in _NEVER_WRITTEN]
    return None


def writes_in_part(op: Op, args: Sequence[Any]) -> bool:
    """Tell whether a call leaves some elements of what it writes as they were."""
    name = op.name.rpartition(".")[2]
    if name == "__setitem__":
        return not _is_everything(args[1]) if len(args) > 1 else True
    return name in PARTIAL_WRITES


def _is_everything(index: Any) -> bool:
    places = index if isinstance(index, tuple) else (index,)
    return all(place is Ellipsis or (isinstance(place, slice) and place == slice(None)) for place in places)


def possible_writes(
    op: Op, tensors: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[torch.Tensor]:
    """Return the tensors that a call may have written without a new version."""
    if op.effects & Effect.WRITES_UNVERSIONED:
        return list(tensors)
    if not op.effects & Effect.WRITES_BUFFERS:
        return []
    is_training = args[_TRAINING] if len(args) > _TRAINING else _training(kwargs)
    if is_training is not True:  # of a backward function another argument stands there
        return []
    buffers = [*args[_BUFFERS.get(op.name.partition(".")[0], _OTHER_BUFFERS)], *map(kwargs.get, _BUFFER_NAMES)]
    return [buffer for buffer in buffers if isinstance(buffer, torch.Tensor) and not buffer.requires_grad]


def _training(kwargs: Mapping[str, Any]) -> bool:
    return bool(kwargs.get("training", kwargs.get("use_input_stats", False)))
