"""One of the two models: runs its steps, recorded into memory, and leaves it as it was."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch
from torch import nn

from torchparity.in_lockstep.dtype_hint import dtypes_explained
from torchparity.in_lockstep.gradient_seeds import run_backward
from torchparity.in_lockstep.inputs import Inputs, inputs_for
from torchparity.in_lockstep.options import Plan
from torchparity.in_lockstep.traces import gradients_put_back, model_put_back
from torchparity.recording.in_memory import MemoryRecording
from torchparity.storage import MemoryPart


class ModelRunner:
    """Runs one model; `side` is 0 for the candidate, 1 for the baseline."""

    def __init__(self, model: nn.Module, plan: Plan, side: int) -> None:
        self.model, self._plan, self._side = model, plan, side
        self._optimizer = None if plan.optimizers is None else plan.optimizers[side]
        self._recording = MemoryRecording(model, level=plan.level, task=plan.task)
        self.output: Any = None

    @property
    def steps(self) -> int:
        """The number of steps to run at most."""
        return self._plan.steps

    def __enter__(self) -> ModelRunner:
        self._recording.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recording.__exit__(kind, error, trace)

    def run_step(self, inputs: Inputs) -> None:
        """Run and record one step."""
        with ExitStack() as stack:
            stack.enter_context(gradients_put_back(self.model))
            if self._optimizer is None:
                stack.enter_context(model_put_back(self.model))
            if self._plan.backward:
                stack.enter_context(torch.inference_mode(False))
                stack.enter_context(torch.enable_grad())
            args, kwargs = inputs_for(self.model, inputs, cast=self._plan.cast_inputs)
            with self._recording.step():
                with dtypes_explained(self.model, "model_b" if self._side else "model_a", (args, kwargs)):
                    output = self.model(*args, **kwargs)
                if self._plan.backward:
                    run_backward(output, self._plan.loss)
                if self._optimizer is not None:
                    self._optimizer.step()
            self.output = _detached(output)

    def take(self) -> MemoryPart:
        """Hand over what the last step recorded."""
        return self._recording.take()


def _detached(output: Any) -> Any:
    """Return nested outputs without their graphs, which would keep every activation alive."""
    if isinstance(output, torch.Tensor):
        return output.detach()
    if isinstance(output, tuple) and hasattr(output, "_fields"):
        return type(output)(*map(_detached, output))
    if type(output) in (list, tuple):
        return type(output)(map(_detached, output))
    if isinstance(output, Mapping):
        return {key: _detached(value) for key, value in output.items()}
    return output
