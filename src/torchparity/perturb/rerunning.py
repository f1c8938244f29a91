"""Running an API again so that nobody can tell: not from the random numbers, the graph, or the caller's tensors."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch

from torchparity.calls import Call
from torchparity.devices import all_devices
from torchparity.ops import Kind
from torchparity.perturb.autocast import is_autocasting
from torchparity.perturb.perturbations import Perturbation
from torchparity.perturb.subject import Subject


class RandomState:
    """The state of the random generators at one time.

    Those among a call's arguments are included, and for a function of the user's those of Python and NumPy.
    """

    def __init__(self, call: Call | None = None) -> None:
        arguments = chain(call.args, call.kwargs.values()) if call is not None else ()
        given = [value for value in arguments if isinstance(value, torch.Generator)]
        default = [generator for device in all_devices() for generator in device.generators()]
        states = [(generator, generator.get_state()) for generator in (*default, *given)]
        self._states = [(generator, state, _mark_of(generator, state)) for generator, state in states]
        self._others = _other_generators() if call is not None and call.op.kind is Kind.CUSTOM else None

    def has_changed(self) -> bool:
        """Tell whether random numbers were drawn since."""
        if self._others is not None and self._others != _other_generators():
            return True
        return any(_mark_of(generator) != before for generator, _, before in self._states)

    def restore(self) -> None:
        """Let the generators go on from here; one that nobody drew from is left alone: other threads may use it."""
        for generator, state, before in self._states:
            if _mark_of(generator) != before:
                generator.set_state(state)


def _mark_of(generator: torch.Generator, state: torch.Tensor | None = None) -> object:
    """Return what changes whenever a generator draws: of CUDA two numbers, of others their state as bytes."""
    if generator.device.type == "cuda":
        return generator.initial_seed(), generator.get_offset()
    return (generator.get_state() if state is None else state).numpy().tobytes()


def _other_generators() -> tuple[object, object]:
    """Return the state of the generators of Python and of NumPy, where that was imported."""
    numpy = sys.modules.get("numpy")
    return random.getstate(), None if numpy is None else _comparable(numpy.random.get_state(legacy=False))


def _comparable(state: Any) -> object:
    """Return a state in which arrays are bytes."""
    if isinstance(state, dict):
        return {key: _comparable(value) for key, value in state.items()}
    return state.tobytes() if hasattr(state, "tobytes") else state


class Autocasting:
    """Autocast as it was switched on for a call, for when the call is run again in another thread."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        kinds = sorted({device.type for device in devices})
        self._kinds = [(kind, torch.get_autocast_dtype(kind)) for kind in kinds if is_autocasting(kind)]

    @contextmanager
    def again(self, *, is_on: bool) -> Iterator[None]:
        """Switch autocast on as it was, or off; without its cache, which the training's own calls share."""
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
