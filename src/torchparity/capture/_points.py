"""Single values that a user saves by hand, with their gradients."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from torchparity.capture._drafts import Draft
from torchparity.capture._recorder import Recorder


class Points:
    """Numbers the values saved under each name; numbers restart with every step."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._numbers: dict[str, int] = {}

    def begin_step(self) -> None:
        self._numbers.clear()

    def save(self, variable: Any, name: str, save_backward: bool) -> None:
        number = self._numbers.get(name, 0)
        self._numbers[name] = number + 1
        self._recorder.boundary.run(name, lambda: self._save(variable, name, number, save_backward))

    def _save(self, variable: Any, name: str, number: int, save_backward: bool) -> None:
        recorder = self._recorder
        self._add(f"{name}.{number}.debug", variable)
        if save_backward and isinstance(variable, torch.Tensor) and variable.requires_grad:
            generation = recorder.generation

            passes = itertools.count(1)

            def arrived(gradient: torch.Tensor) -> None:
                if generation == recorder.generation:
                    recorder.boundary.run(name, self._save_gradient, gradient, f"{name}_grad.{number}", next(passes))

            recorder.remove_at_step(variable.register_hook(arrived))  # type: ignore[no-untyped-call]

    def _save_gradient(self, gradient: torch.Tensor, name: str, turn: int) -> None:
        """Add the gradient of a value; a graph that is gone through again gives it again."""
        self._add(f"{name}.debug{f'#{turn}' if turn > 1 else ''}", gradient)

    def _add(self, record: str, variable: Any) -> None:
        draft = Draft(record, "debug")
        draft.value = self._recorder.observer_of(record).nest(variable)
        self._recorder.meter.flush()
        self._recorder.add(draft, None)
