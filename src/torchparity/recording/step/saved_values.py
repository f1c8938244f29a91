"""Single values that a user saves by hand, with their gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from torchparity.calls import Dispatcher, Flat, tensors_in
from torchparity.recording.step.drafts import Draft
from torchparity.recording.step.recorder import Recorder


class SavedValues:
    """Numbers the values saved under each name; numbers restart with every step."""

    def __init__(self, dispatcher: Dispatcher, recorder: Recorder) -> None:
        self._dispatcher, self._recorder = dispatcher, recorder
        self._numbers: dict[str, int] = {}

    def begin_step(self) -> None:
        self._numbers.clear()

    def save(self, variable: Any, name: str, save_backward: bool) -> None:
        number = self._numbers.get(name, 0)
        self._numbers[name] = number + 1
        self._dispatcher.boundary.run(name, self._save, variable, name, number, save_backward)

    def _save(self, variable: Any, name: str, number: int, save_backward: bool) -> None:
        flat = Flat((variable,), {}).walked()
        (form,) = flat.args_form or (None,)
        # At level debug nobody saw what `x.data.add_(1)` did since.
        self._recorder.measurements.writes.invalidate(*tensors_in(variable))
        self._recorder.add_value(Draft(f"{name}.{number}.debug", "debug", value=form), flat)
        if not save_backward:
            return
        gradients = _Gradients(self._dispatcher, self._recorder, f"{name}_grad.{number}.debug", form)
        for slot, tensor in enumerate(flat.tensors):
            if tensor.requires_grad:
                hook = partial(gradients.arrived, slot)
                self._dispatcher.remove_at_step(tensor.register_hook(hook))  # type: ignore[no-untyped-call]


class _Gradients:
    """The gradients of one saved value, nested like it; a graph that is gone through again gives them again."""

    def __init__(self, dispatcher: Dispatcher, recorder: Recorder, name: str, form: Any) -> None:
        self._dispatcher, self._recorder, self._name, self._form = dispatcher, recorder, name, form
        self._step = dispatcher.step
        self._passes: dict[int, Draft] = {}

    def arrived(self, slot: int, gradient: torch.Tensor) -> None:
        if self._step == self._dispatcher.step:
            self._dispatcher.boundary.run(self._name, self._take, slot, gradient)

    def _take(self, slot: int, gradient: torch.Tensor) -> None:
        graph_task = torch._C._current_graph_task_id()
        draft = self._passes.get(graph_task)
        if draft is None:
            again = f"#{len(self._passes) + 1}" if self._passes else ""
            draft = self._passes[graph_task] = Draft(self._name + again, "debug", value=self._form, inputs={})
            self._recorder.add(draft, None)
        self._recorder.observe_into(draft, slot, gradient)
