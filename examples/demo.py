"""Write a small run by hand and look at it.

Recording a model by itself and comparing two runs come next; until then the demo does by
hand what recording will do: three steps of a two-layer network, every call with its
inputs, outputs and statistics, tensors included.
"""

from __future__ import annotations

import linecache
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional

import torchparity
from torchparity import cli
from torchparity.kernels.reference import PLUGIN as REFERENCE
from torchparity.records import Record, StackGroup, TensorLeaf, describe

RUN = Path("demo_run")
STEPS = 3


class HandRecorder:
    """Calls an API and adds its record to the run."""

    def __init__(self, writer: torchparity.RunWriter) -> None:
        self._writer = writer
        self.calls: dict[str, int] = {}
        self.stacks: dict[str, list[str]] = {}

    def __call__(self, api: Callable[..., torch.Tensor], *arguments: object) -> torch.Tensor:
        operator = api.__name__
        name = f"Functional.{operator}.{self.calls.get(operator, 0)}.forward"
        self.calls[operator] = self.calls.get(operator, 0) + 1
        began = time.perf_counter()
        output = api(*arguments)
        seconds = time.perf_counter() - began
        shown = {f"input.{index}": value for index, value in enumerate(arguments)} | {"output.0": output}
        record = Record(
            name=name,
            direction="forward",
            input_args=[leaf(value) for value in arguments],
            output=[leaf(output)],
            seconds=seconds,
        )
        # A copy: the writer's thread stores it while training goes on and changes weights in place.
        values = {item: value.detach().clone() for item, value in shown.items() if isinstance(value, torch.Tensor)}
        self._writer.add(record, {item: torchparity.from_torch(value) for item, value in values.items()})
        frame = sys._getframe(1)
        source = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        where = f"File {frame.f_code.co_filename}, line {frame.f_lineno}, in {frame.f_code.co_name}"
        self.stacks[name] = [f"{where}, \n {source}"]
        return output


def leaf(value: object) -> object:
    if not isinstance(value, torch.Tensor):
        return describe(value)
    return TensorLeaf(
        dtype=str(value.dtype),
        shape=tuple(value.shape),
        statistics=REFERENCE.statistics(torchparity.from_torch(value)),
        requires_grad=value.requires_grad,
    )


def record_three_steps() -> None:
    torch.manual_seed(0)
    weights = [torch.randn(64, 32).mul_(0.2).requires_grad_(), torch.randn(10, 64).mul_(0.2).requires_grad_()]
    data, labels = torch.randn(16, 32), torch.randint(10, (16,))
    with torchparity.RunWriter(RUN, task="tensor") as writer:
        for step in range(STEPS):
            writer.start_step(step)
            call = HandRecorder(writer)
            hidden = call(functional.gelu, call(functional.linear, data, weights[0]))
            loss = call(functional.cross_entropy, call(functional.linear, hidden, weights[1]), labels)
            loss.backward()
            with torch.no_grad():
                for weight in weights:
                    weight -= 0.1 * weight.grad
                    weight.grad = None
            writer.finish_step(stacks=[StackGroup([name], frames) for name, frames in call.stacks.items()])


def show(*arguments: str) -> None:
    print(f"\n$ torchparity {shlex.join(arguments)}")
    cli.main(arguments)


def main() -> None:
    shutil.rmtree(RUN, ignore_errors=True)
    record_three_steps()
    print(f"Wrote a small run to {RUN}/ by hand. Recording a model and comparing two runs are not built yet.")
    show("show", str(RUN))
    show("show", str(RUN), "Functional.linear.0.forward", "--step", "1")
    show("show", str(RUN), "Functional.gelu.0.forward", "--tensor", "output.0")


if __name__ == "__main__":
    main()
