"""Single values that a user saves by hand, with their gradients."""

from __future__ import annotations

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
        draft = Draft(f"{name}.{number}.debug", "debug")
        draft.value = recorder.observer_of(draft.name).nest(variable)
        recorder.meter.flush()
        recorder.add(draft, None)
        if save_backward and isinstance(variable, torch.Tensor) and variable.requires_grad:
            generation = recorder.generation

            def arrived(gradient: torch.Tensor) -> None:
                if generation == recorder.generation:
                    recorder.boundary.run(name, lambda: self._save(gradient, f"{name}_grad", number, False))

            recorder.remove_at_step(variable.register_hook(arrived))  # type: ignore[no-untyped-call]
