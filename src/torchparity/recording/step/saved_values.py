"""Single values that a user saves by hand, with their gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from torchparity.recording.measuring.geometry import tensors_in
from torchparity.recording.step.drafts import Draft, slots_of
from torchparity.recording.step.recorder import Recorder


class SavedValues:
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
        self._recorder.measurements.invalidate(
            *tensors_in(variable)
        )  # at level debug nobody saw what `x.data.add_(1)` did since
        self._add(f"{name}.{number}.debug", variable)
        if not save_backward:
            return
        found: list[torch.Tensor] = []
        gradients = _Gradients(self._recorder, f"{name}_grad.{number}.debug", slots_of(variable, found))
        for slot, tensor in enumerate(found):
            hook = partial(gradients.arrived, slot)
            self._recorder.remove_at_step(tensor.register_hook(hook))  # type: ignore[no-untyped-call]

    def _add(self, record: str, variable: Any) -> None:
        draft = Draft(record, "debug")
        draft.value = self._recorder.observer_of(record).nest(variable)
        self._recorder.measurements.flush()
        self._recorder.add(draft, None)


class _Gradients:
    """The gradients of one saved value, nested like it; a graph that is gone through again gives them again."""

    def __init__(self, recorder: Recorder, name: str, slots: Any) -> None:
        self._recorder, self._name, self._slots = recorder, name, slots
        self._generation = recorder.generation
        self._passes: dict[int, Draft] = {}

    def arrived(self, slot: int, gradient: torch.Tensor) -> None:
        recorder = self._recorder
        with recorder.lock:  # a step that ends in another thread meanwhile comes before or after
            if self._generation == recorder.generation:
                recorder.boundary.run(self._name, self._take, slot, gradient)

    def _take(self, slot: int, gradient: torch.Tensor) -> None:
        task = torch._C._current_graph_task_id()
        draft = self._passes.get(task)
        if draft is None:
            again = f"#{len(self._passes) + 1}" if self._passes else ""
            draft = self._passes[task] = Draft(self._name + again, "debug", value=self._slots, arrived=({}, {}))
            self._recorder.add(draft, None)
        if draft.arrived is not None:
            draft.arrived[0][slot] = self._recorder.observer_of(draft.name).nest(gradient)
            self._recorder.measurements.flush()
