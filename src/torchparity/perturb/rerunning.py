"""Running an API again so that nobody can tell: not from the random numbers, the graph, or the caller's tensors."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from torchparity.calls import Call
from torchparity.devices import Device, all_devices, devices_of_types
from torchparity.ops import Kind, Op, draws_where_its_tensors_are
from torchparity.perturb.autocast import autocasting_kinds, is_any_autocasting
from torchparity.perturb.perturbations import Perturbation
from torchparity.perturb.subject import Subject


class RandomState:
    """The state of the random generators at one time.

    For a call they are those that it may draw from, given where its `tensors` are: those among its arguments are
    included, and for a function or an operator of the user's those of Python and NumPy.
    """

    def __init__(self, call: Call | None = None, tensors: Iterable[torch.Tensor] = ()) -> None:
        generators = [generator for device in _drawn_from(call, tensors) for generator in device.generators()]
        if call is not None:
            arguments = (*call.args, *call.kwargs.values())
            generators += [value for value in arguments if isinstance(value, torch.Generator)]
        self._states = [(generator, _state_of(generator)) for generator in generators]
        self._others = _other_generators() if call is not None and _may_run_python(call.op) else None

    def has_changed(self) -> bool:
        """Tell whether random numbers were drawn since."""
        if self._others is not None and self._others != _other_generators():
            return True
        return any(_state_of(generator) != before for generator, before in self._states)

    def restore(self) -> None:
        """Let the generators go on from here; one that nobody drew from is left alone: other threads may use it."""
        for generator, before in self._states:
            if _state_of(generator) != before:
                _go_on_from(before, generator)


def _may_run_python(op: Op) -> bool:
    """Tell whether a function may be written in Python by the user: an operator of torch.library may be."""
    return op.kind is Kind.CUSTOM or op.name.startswith("Ops.")


def _drawn_from(call: Call | None, tensors: Iterable[torch.Tensor]) -> Sequence[Device]:
    """Return the devices that a call may draw on: all, but for one on CUDA that certainly draws there or nowhere.

    The host's state is 5 KB, and reading it takes more than all else that is held of a call.
    """
    kinds = {tensor.device.type for tensor in tensors}
    if call is None or kinds != {"cuda"} or not draws_where_its_tensors_are(call.op.name):
        return all_devices()
    return [device for device in devices_of_types(kinds) if not device.is_host]


def _state_of(generator: torch.Generator) -> bytes | tuple[int, int]:
    """Return the state of a generator: of CUDA two numbers, which are read faster, of others bytes."""
    if generator.device.type == "cuda":
        return generator.initial_seed(), generator.get_offset()
    return generator.get_state().numpy().tobytes()


def _go_on_from(state: bytes | tuple[int, int], generator: torch.Generator) -> None:
    if isinstance(state, bytes):
        generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
    else:
        seed, offset = state
        generator.manual_seed(seed)
        generator.set_offset(offset)


def _other_generators() -> tuple[object, object]:
    """Return the state of the generators of Python and of NumPy, where that was imported."""
    numpy = sys.modules.get("numpy")
    return random.getstate(), None if numpy is None else _comparable(numpy.random.get_state(legacy=False))


def _comparable(state: Any) -> object:
    """Return a state in which arrays are bytes."""
    if isinstance(state, dict):
        return {key: _comparable(value) for key, value in state.items()}
    return state.tobytes() if hasattr(state, "tobytes") else state


def gradients_as_called(op: Op) -> AbstractContextManager[Any]:
    """Leave gradients on or off as they are for a call, since torch chooses kernels by that.

    Tensors that need none make no graph; code of the user's, which may have others, runs with gradients off.
    """
    return torch.set_grad_enabled(torch.is_grad_enabled() and not _may_run_python(op))


class Autocasting:
    """Autocast as it was switched on for a call, for when the call is run again in another thread."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._kinds = [(kind, torch.get_autocast_dtype(kind)) for kind in autocasting_kinds(tensors)]

    def again(self, *, is_on: bool) -> AbstractContextManager[None]:
        """Switch autocast on as it was, or off; without its cache, which the training's own calls share."""
        return self._switched(is_on) if self._kinds or is_any_autocasting() else nullcontext()

    @contextmanager
    def _switched(self, is_on: bool) -> Iterator[None]:
        was_enabled = torch.is_autocast_cache_enabled()
        states = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind, _ in self._kinds]
        torch.set_autocast_cache_enabled(False)
        try:
            for kind, dtype in self._kinds:
                torch.set_autocast_enabled(kind, is_on)
                torch.set_autocast_dtype(kind, dtype)
            yield
        finally:
            for kind, enabled, dtype in states:
                torch.set_autocast_enabled(kind, enabled)
                torch.set_autocast_dtype(kind, dtype)
            torch.set_autocast_cache_enabled(was_enabled)


def run_again(
    function: Callable[..., Any],
    subject: Subject,
    tensors: Sequence[torch.Tensor],
    perturbation: Perturbation,
    autocasting: Autocasting,
    random_state: RandomState,
) -> Any:
    """Return what a function returns for other tensors; generators that it draws from go back to a state."""
    args, kwargs = subject.arguments(tensors, perturbation.changed)
    try:
        with autocasting.again(is_on=not perturbation.leaves_autocast):
            return function(*args, **kwargs)
    finally:
        random_state.restore()
