"""Results of one run of a call: outputs, arguments that it wrote, and gradients of its arguments, on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(eq=False)
class Results:
    """Values by place: "0" is the first output or argument, "1.2" one inside a list, "weight" a keyword."""

    outputs: dict[str, Any]
    written: dict[str, torch.Tensor] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    gradient_problem: str | None = None  # why there are no gradients although they were asked for
    has_drawn: bool = False  # random numbers, from the CPU's generator

    def by_name(self) -> dict[str, Any]:
        """Return every value by the end of its row's name: `forward.output.0`, `backward.output.weight`."""
        named = {f"forward.output.{path}": value for path, value in self.outputs.items()}
        named |= {f"forward.input.{path}": value for path, value in self.written.items()}
        return named | {f"backward.output.{path}": value for path, value in self.gradients.items()}


def leaves_of(output: Any) -> dict[str, Any]:
    """Return what a call returned by place; one output has the place 0."""
    several = isinstance(output, (tuple, list)) and not isinstance(output, torch.Size)
    entries = output if several else (output,)
    return {path: leaf for place, entry in enumerate(entries) for path, leaf in _flat(str(place), entry)}


def on_host(value: Any) -> Any:
    """Return a tensor with its values on the CPU, as plain numbers in memory; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    shown = value.detach()
    if shown.is_quantized:
        shown = shown.dequantize()
    if shown.layout is not torch.strided:
        shown = shown.to_dense()
    if shown._is_zerotensor():
        shown = shown.clone()  # which has memory
    return shown.cpu().resolve_conj().resolve_neg()


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.Size):
        yield path, list(value)
    elif isinstance(value, (tuple, list)):
        for place, entry in enumerate(value):
            yield from _flat(f"{path}.{place}", entry)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _flat(f"{path}.{key}", entry)
    else:
        yield path, value
