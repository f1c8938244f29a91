"""One run of a call: arguments put in place, the function called, gradients computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from torchparity.calls import attempted
from torchparity.check.cases import Arguments, CannotRun, DeviceWord, DtypeWord, Input
from torchparity.check.emulation import RoundedResults, Tf32Products, moved
from torchparity.check.execution.precision import Way
from torchparity.check.execution.results import Results, leaves_of, on_host
from torchparity.check.execution.seeds import GradientSeeds
from torchparity.devices import device_for

SEED = 20240229  # of the generators before every run, so that equal kernels draw equal numbers


@dataclass(frozen=True)
class Call:
    """A function with its arguments; `seeds` are the gradients to start from, None without a backward pass."""

    function: Callable[..., Any]
    arguments: Arguments
    writes: bool
    writes_unversioned: bool
    seeds: GradientSeeds | None


def run(call: Call, way: Way) -> Results:
    """Run a call in one way; whatever the function raises is raised."""
    placing = _Placing(call, way)
    args, kwargs = call.arguments.mapped(placing.place)
    for generator in (torch.default_generator, *device_for(way.device).generators()):
        generator.manual_seed(SEED)
    state = torch.get_rng_state() if way.device.type == "cpu" else None
    with _rounding(way):
        with _default_dtype(way), torch.set_grad_enabled(call.seeds is not None):
            returned = call.function(*args, **kwargs)
        has_drawn = state is not None and not torch.equal(state, torch.get_rng_state())
        outputs = leaves_of(returned)
        results = Results({}, placing.written(outputs), has_drawn=has_drawn)
        if call.seeds is not None and placing.leaves:
            _differentiate(call.seeds, placing, outputs, results)
    results.outputs = {path: on_host(value) for path, value in outputs.items()}
    return results


def _differentiate(seeds: GradientSeeds, placing: _Placing, outputs: dict[str, Any], results: Results) -> None:
    graded = {path: out for path, out in outputs.items() if isinstance(out, torch.Tensor) and out.requires_grad}
    if not graded:
        return
    leaves = placing.leaves

    def gradients() -> tuple[torch.Tensor | None, ...]:
        given = {path: seeds.seed(path, output) for path, output in graded.items()}
        started = {path: placing.moved(seed) for path, seed in given.items() if seed is not None}
        if not started:
            return (None,) * len(leaves)
        ends = [graded[path] for path in started]
        return torch.autograd.grad(ends, list(leaves.values()), list(started.values()), allow_unused=True)

    found = attempted(gradients)
    if isinstance(found, Exception):
        results.gradient_problem = str(found) if isinstance(found, CannotRun) else f"it raised {first_line(found)}"
        return
    results.gradients = {path: on_host(gradient) for path, gradient in zip(leaves, found, strict=True)}


def first_line(error: Exception) -> str:
    """Return what was raised in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


@dataclass(frozen=True)
class _Placed:
    """A tensor that a call may write, its version and its content before."""

    tensor: torch.Tensor
    version: int
    before: torch.Tensor

    def has_changed(self, by_content: bool) -> bool:
        if self.tensor._version != self.version:
            return True
        return by_content and not torch.equal(self.tensor.detach(), self.before)


class _Placing:
    """Arguments on their way into one run: every run has tensors of its own where the function may write them."""

    def __init__(self, call: Call, way: Way) -> None:
        self._call, self._way = call, way
        self._placed: dict[str, _Placed] = {}
        self.leaves: dict[str, torch.Tensor] = {}

    def place(self, leaf: Any) -> Any:
        """Return what stands for a leaf of the rebuilt arguments in this run."""
        if isinstance(leaf, Input):
            return self._tensor(leaf)
        if isinstance(leaf, DeviceWord):
            return self._way.device
        if isinstance(leaf, DtypeWord):
            return self._way.dtype(leaf.dtype) if self._way.raises_words else leaf.dtype
        emulated = self._way.emulated
        if type(leaf) is float and emulated is not None and emulated.has_exact_inputs:
            return torch.tensor(leaf, dtype=torch.float64).to(_real(emulated.tested)).item()
        return leaf

    def written(self, outputs: dict[str, Any]) -> dict[str, torch.Tensor]:
        """Return the arguments that the call has changed in place and not returned."""
        returned = {id(output) for output in outputs.values()}
        by_content = self._call.writes_unversioned or all(output is None for output in outputs.values())
        changed = {path: placed.tensor for path, placed in self._placed.items() if placed.has_changed(by_content)}
        return {path: on_host(tensor) for path, tensor in changed.items() if id(tensor) not in returned}

    def moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor as the emulation of a dtype's rounding takes it; without one, as it is."""
        emulated = self._way.emulated
        if emulated is None or emulated.has_exact_inputs:
            return tensor
        return moved(tensor, emulated.tested, emulated.number, emulated.api)

    def _tensor(self, given: Input) -> torch.Tensor:
        tensor = given.tensor.to(device=self._way.device, dtype=self._way.dtype(given.tensor.dtype))
        tensor = self.moved(tensor)
        if self._call.seeds is not None and given.requires_grad and _can_have_gradient(tensor):
            tensor = tensor.detach().requires_grad_()
            self.leaves[given.path] = tensor
        if not self._call.writes:
            return tensor
        own = tensor.clone()
        self._placed[given.path] = _Placed(own, own._version, tensor.detach())
        return own


def _real(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_real() if dtype.is_complex else dtype


def _can_have_gradient(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _rounding(way: Way) -> AbstractContextManager[Any]:
    if way.tf32 is not None:
        return Tf32Products(way.tf32)
    if way.emulated is None:
        return nullcontext()
    return RoundedResults(way.emulated.tested, way.emulated.number)


@contextmanager
def _default_dtype(way: Way) -> Iterator[None]:
    """Let what whole numbers and factories become be as wide as the reference."""
    if way.raised is not torch.float64 or not way.raises_words:
        yield
        return
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
